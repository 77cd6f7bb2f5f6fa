"""What a person or a publisher can be called, decided by the auditor for itself (docs/contract.md, "Events")."""

import unicodedata


def is_name(raw: object) -> bool:
    """Whether this is some text of up to 512 bytes, in form NFC, in which every character can be seen."""
    if not isinstance(raw, str) or not 0 < len(raw.encode(errors="surrogatepass")) <= 512:
        return False
    kinds = {unicodedata.category(character) for character in raw}
    return not kinds & {"Cc", "Cs", "Zl", "Zp"} and unicodedata.normalize("NFC", raw) == raw
