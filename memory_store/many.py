"""One PostgreSQL statement for many rows: what is written for one row, joined with a list.

Sent row by row, a batch costs the server one execution each. Sent as one JSON text that the
server unfolds into rows, it costs one in all, and the client next to nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

_PARAMETER = re.compile(r"%\((\w+)\)s(?:::\w+)?")
_CONFLICT = re.compile(r" ON CONFLICT \(([^)]*)\) DO UPDATE")
_INSERT = re.compile(
    r"INSERT INTO (?P<table>\S+) \((?P<columns>[^)]*)\) VALUES \((?P<values>.*?)\)(?= ON |$)"
)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)

Row = Mapping[str, object]


class ManyRows:
    """A statement for one row, as it is run for many; its parameter is called `rows`.

    `types` are those of the parameters in `sql`, as the server calls them.
    """

    def __init__(self, sql: str, types: Mapping[str, str]) -> None:
        sql = sql.replace(" \n", " ")
        columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
        source = f"json_to_recordset(%(rows)s::json) AS v({columns})"
        verb = sql.partition(" ")[0]
        if verb == "INSERT":
            self.sql = _INSERT.sub(
                lambda found: (
                    # Made of what was compiled, never of a value.
                    f"INSERT INTO {found['table']} ({found['columns']}) "  # noqa: S608
                    f"SELECT {_by_name(found['values'])} FROM {source}"
                ),
                sql,
            )
            self._keys = _conflict_keys(sql)
        else:
            head, _, where = sql.partition(" WHERE ")
            # A SELECT lists its tables last, so the source is one more of them.
            joined = {"UPDATE": " FROM", "DELETE": " USING", "SELECT": ","}[verb]
            self.sql = f"{_by_name(head)}{joined} {source} WHERE {_by_name(where)}"
            self._keys = () if verb == "SELECT" else tuple(_PARAMETER.findall(where))

    def batches(self, rows: Sequence[Row]) -> Iterator[str]:
        """Yield `rows` as the values of `rows`, together but for those of one key.

        One statement changes a row once: what comes to it later needs a statement after that.
        """
        if not self._keys:
            yield _ENCODER.encode(rows)
            return
        batch: dict[tuple[object, ...], Row] = {}
        for row in rows:
            key = tuple([row[name] for name in self._keys])
            if key in batch:
                yield _ENCODER.encode(list(batch.values()))
                batch.clear()
            batch[key] = row
        yield _ENCODER.encode(list(batch.values()))


def _by_name(sql: str) -> str:
    return _PARAMETER.sub(r"v.\1", sql)


def _conflict_keys(sql: str) -> tuple[str, ...]:
    """Return the parameters whose values tell which row an upsert changes."""
    insert, conflict = _INSERT.match(sql), _CONFLICT.search(sql)
    if insert is None or conflict is None:
        return ()
    values = dict(zip(_words(insert["columns"]), _words(insert["values"]), strict=True))
    found = [_PARAMETER.match(values[column]) for column in _words(conflict[1])]
    return tuple(parameter[1] for parameter in found if parameter is not None)


def _words(text: str) -> list[str]:
    return text.split(", ")
