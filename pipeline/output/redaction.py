"""Secrets in addresses and commands, taken out before they are kept or printed."""

from __future__ import annotations

import os
import re

_HIDDEN = "***"
# What the environment holds of keys of object stores, wherever it may have got to.
_SECRETS = re.compile(r"(?:AWS|AZURE|GOOGLE)_\w*(?:KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|SAS)\w*", re.IGNORECASE)
_SHORTEST_SECRET = 6
# A user and a password, or a key, before the host: s3://id:secret@bucket/x; as a path it has one slash.
_USER = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]+:/{1,2})[^/\s'\"@]+@")
# Signed links and tokens: ?X-Amz-Signature=…, &token=…, and the same as options of their own: secret=…
_WORDS = r"token|signature|secret|passw(?:or)?d|credential|api[_-]?key|access[_-]?key"
_NAMES = rf"[\w.-]*(?:{_WORDS})[\w.-]*|(?<![\w.-])(?:sig|auth)"
# What only switches something (AWS_SKIP_SIGNATURE=true) is none.
_PARAMETER = re.compile(rf"(?P<name>(?:{_NAMES})=)(?!(?:true|false)\b)[^&;\s'\"]+", re.IGNORECASE)
_ALONE = r"(?<![\w./-]){}(?![\w/-]|\.\w)"


def redacted(text: str) -> str:
    """The text without passwords, keys and tokens, be they in addresses or this process's environment: ``***``."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST_SECRET and value in text and _SECRETS.fullmatch(name):
            # The name of a key is no secret: hidden where it stands alone, and not as a part of a file's name.
            is_name = name.upper().endswith("_ID")
            text = re.sub(_ALONE.format(re.escape(value)), _HIDDEN, text) if is_name else text.replace(value, _HIDDEN)
    return _PARAMETER.sub(rf"\g<name>{_HIDDEN}", _USER.sub(rf"\g<scheme>{_HIDDEN}@", text))
