"""What agents are served beside tools and models: their sessions, their tasks, their outcomes."""

from starlette.routing import BaseRoute

from runtime.ground import Ground
from runtime.outcome_front import OutcomeFront
from runtime.session_front import SessionFront
from runtime.task_front import TaskFront


def agent_routes(ground: Ground) -> list[BaseRoute]:
    """Return the routes; who calls is known before."""
    clock, store, feedback = ground.clock, ground.store, ground.routing.feedback

    return [
        *OutcomeFront(feedback, policy=lambda: ground.policy).routes(),
        *SessionFront(store, clock=clock, policy=lambda: ground.policy, feedback=feedback).routes(),
        *TaskFront(
            ground.flow,
            store,
            launchers=ground.config.flow.launchers,
            clock=clock,
            policy=lambda: ground.policy,
        ).routes(),
    ]
