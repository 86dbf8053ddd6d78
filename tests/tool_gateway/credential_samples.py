"""Texts with a credential of every kind, and the part of each that nobody may see."""

# Put together here, so that no scanner of this repository takes one for a real one.
AWS_KEY = "AKIA" + "Z" * 16
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\nMIIE\nabc\n-----END RSA {'PRIVATE'} KEY-----"
JWT = f"eyJ{'a' * 20}.eyJ{'b' * 20}.{'c' * 20}"
_TAIL = "a1B2" * 10

SAMPLES: tuple[tuple[str, str, str], ...] = (
    ("cloud_keys", AWS_KEY, AWS_KEY),
    ("cloud_keys", f"ASIA{'Z' * 16}", "ZZZZ"),
    ("cloud_keys", f"AIza{'a' * 35}", "aaaa"),
    ("cloud_keys", f"ya29.{_TAIL}", _TAIL),
    ("cloud_keys", f"AccountKey={_TAIL}==", _TAIL),
    ("api_keys", f"sk-{_TAIL}", _TAIL),
    ("api_keys", f"sk_live_{_TAIL}", _TAIL),
    ("api_keys", f"rk_live_{_TAIL}", _TAIL),
    ("api_keys", f"ghp_{_TAIL}", _TAIL),
    ("api_keys", f"github_pat_{_TAIL}", _TAIL),
    ("api_keys", f"glpat-{_TAIL}", _TAIL),
    ("api_keys", f"xoxb-{_TAIL}", _TAIL),
    ("api_keys", f"fbt_{_TAIL}", _TAIL),
    ("private_keys", PEM, "MIIE"),
    ("private_keys", PEM.partition("-----END")[0], "MIIE"),
    ("bearer_tokens", "Authorization: Bearer abcdefgh1234", "abcdefgh"),
    ("bearer_tokens", "authorization: basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("jwts", JWT, "aaaa"),
    ("url_credentials", "postgresql://user:hunter22@db/x", "hunter22"),
    ("url_credentials", "redis://:hunter22@cache/0", "hunter22"),
)
