"""What kind of work a command line does, as far as its words tell.

The classes are those that differ in what they need: tests and builds burst, looking around does
not. It is a table of programs, read from left to right: of the commands of a line the heaviest
class counts, because that is the one that needs the memory.
"""

from collections.abc import Iterator
from enum import StrEnum


class CommandClass(StrEnum):
    """The kinds of work, the heaviest first."""

    TEST = "test"
    BUILD = "build"
    INSTALL = "install"
    PYTHON = "python"
    GIT = "git"
    EXPLORE = "explore"
    OTHER = "other"


_WEIGHT = {kind: at for at, kind in enumerate(CommandClass)}
LINE_CHARS_MAX = 4_096
_SEPARATORS = frozenset({";", "&&", "||", "|", "&", "(", ")", "{", "}", "\n", "then", "do", "else"})
# What runs another command, after its own options and assignments.
_WRAPPERS = frozenset(
    {
        *("sudo", "env", "time", "timeout", "nice", "nohup", "xargs", "exec", "command", "stdbuf"),
        *(
            "bash",
            "sh",
            "zsh",
            "dash",
            "if",
            "while",
            "!",
            "uv",
            "poetry",
            "pipenv",
            "pdm",
            "hatch",
        ),
        *("npx", "pnpx", "bunx", "coverage", "uvx", "conda", "run", "parallel"),
    }
)
_PROGRAMS: dict[CommandClass, frozenset[str]] = {
    CommandClass.TEST: frozenset(
        {
            *("pytest", "py.test", "tox", "nox", "nosetests", "nose2", "unittest", "jest"),
            *("mocha", "vitest", "ava", "karma", "cypress", "playwright", "rspec"),
            *("minitest", "phpunit", "ctest", "behave", "stestr", "trial", "bats"),
        }
    ),
    CommandClass.BUILD: frozenset(
        {
            *("make", "cmake", "ninja", "meson", "bazel", "buck", "gradle", "gradlew"),
            *("mvn", "ant", "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "rustc"),
            *("javac", "tsc", "webpack", "rollup", "vite", "esbuild", "scons", "cython"),
            *("mypy", "sphinx-build"),
        }
    ),
    CommandClass.INSTALL: frozenset(
        {
            *("pip", "pip3", "pipx", "apt", "apt-get", "aptitude", "dpkg", "yum", "dnf"),
            *("apk", "brew", "conda", "mamba", "micromamba", "gem", "bundle", "composer"),
            *("easy_install"),
        }
    ),
    CommandClass.GIT: frozenset(
        {
            *("git", "gh", "hub", "svn", "hg"),
        }
    ),
    CommandClass.EXPLORE: frozenset(
        {
            *("ls", "cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "ag", "find"),
            *("fd", "tree", "wc", "sed", "awk", "less", "more", "file", "stat", "du", "df"),
            *("pwd", "which", "type", "sort", "uniq", "cut", "diff", "nl", "od", "xxd"),
            *("strings", "basename", "dirname", "realpath", "readlink", "printenv"),
        }
    ),
}
_PYTHON = ("python", "pypy", "ipython")
_MODULES = {
    **dict.fromkeys(("pytest", "unittest", "tox", "nox", "nose", "nose2"), CommandClass.TEST),
    **dict.fromkeys(("pip", "ensurepip", "venv", "virtualenv"), CommandClass.INSTALL),
    **dict.fromkeys(("build", "compileall", "mypy", "sphinx"), CommandClass.BUILD),
}
# Programs that do one thing or another by their first word.
_VERBS: dict[str, dict[str, CommandClass]] = {
    program: {
        **dict.fromkeys(("test", "t", "check", "tests"), CommandClass.TEST),
        **dict.fromkeys(
            ("install", "i", "ci", "add", "sync", "get", "fetch"), CommandClass.INSTALL
        ),
        **dict.fromkeys(("build", "compile", "b", "package"), CommandClass.BUILD),
    }
    for program in (
        *("npm", "yarn", "pnpm", "bun", "cargo", "go", "dotnet", "swift", "mix", "sbt", "stack"),
        *("uv", "poetry", "pipenv", "pdm", "hatch", "make", "gradle", "gradlew", "mvn", "setup.py"),
    )
}
_TEST_WORDS = ("runtests.py", "test.py", "run_tests.py", "manage.py test")


def class_of(line: str) -> CommandClass:
    """Return the heaviest class of the commands in a line; OTHER where none is known."""
    found = (_class_of_words(words) for words in _commands(line[:LINE_CHARS_MAX]))
    return min(found, key=_WEIGHT.__getitem__, default=CommandClass.OTHER)


def _commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each simple command; quotes are looked through, not obeyed."""
    words: list[str] = []
    for word in _words(line):
        if word in _SEPARATORS:
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


def _words(line: str) -> Iterator[str]:
    for sign in ("&&", "||", ";", "|", "(", ")", "\n"):
        line = line.replace(sign, f" {sign} ")
    line = line.replace("|  |", "||").replace("\n", " ; ")
    for word in line.split():
        stripped = word.strip("'\"`")
        if stripped:
            yield stripped


def _class_of_words(words: list[str]) -> CommandClass:
    rest = words
    while rest:
        program = rest[0].rpartition("/")[2]
        if "=" in rest[0] or rest[0].startswith("-") or rest[0][0].isdigit():
            rest = rest[1:]
            continue
        by_verb = _by_verb(program, rest[1:])
        if by_verb is not None:
            return by_verb
        if program in _WRAPPERS:
            rest = rest[1:]
            continue
        return _class_of_program(program, rest[1:])
    return CommandClass.OTHER


def _by_verb(program: str, rest: list[str]) -> CommandClass | None:
    verbs = _VERBS.get(program)
    verb = next((word for word in rest if not word.startswith("-")), "")
    return None if verbs is None else verbs.get(verb.partition(":")[0])


def _class_of_program(program: str, rest: list[str]) -> CommandClass:
    for kind, programs in _PROGRAMS.items():
        if program in programs:
            return kind
    if program.startswith(_PYTHON):
        return _class_of_python(rest)
    if program.endswith(_TEST_WORDS):
        return CommandClass.TEST
    return CommandClass.PYTHON if program.endswith(".py") else CommandClass.OTHER


def _class_of_python(rest: list[str]) -> CommandClass:
    """Return what an interpreter is started for: a module, a script, a few lines."""
    if "-m" in rest[:-1]:
        module = rest[rest.index("-m") + 1].partition(".")[0]
        return _MODULES.get(module, CommandClass.PYTHON)
    script = next((word for word in rest if not word.startswith("-")), "")
    name = script.rpartition("/")[2]
    verb = " ".join([name, *rest[rest.index(script) + 1 :][:1]]) if script else ""
    if name in _TEST_WORDS or verb in _TEST_WORDS:
        return CommandClass.TEST
    if name == "setup.py":
        return _by_verb(name, rest[rest.index(script) + 1 :]) or CommandClass.INSTALL
    return CommandClass.PYTHON
