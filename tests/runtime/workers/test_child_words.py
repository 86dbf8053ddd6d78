"""What a process of a sidecar says when it cannot begin."""

from memory_store.errors import StoreError
from runtime.errors import ConfigError
from runtime.workers.child import words_of


def test_what_a_user_can_mend_is_told_once_however_many_tasks_it_ended() -> None:
    fault, other = ConfigError("plugins.enabled: no such plug-in"), StoreError("the disk is full")
    group = ExceptionGroup("of tasks", [fault, ExceptionGroup("of more", [fault, other])])

    assert words_of(group) == "plugins.enabled: no such plug-in\nthe disk is full"
    assert words_of(fault) == "plugins.enabled: no such plug-in"


def test_a_fault_of_ours_is_not_told_as_if_its_user_could_mend_it() -> None:
    assert words_of(ExceptionGroup("of tasks", [ConfigError("a"), ValueError("b")])) is None
