"""Which arrays of a store have checksums, without which Blosc decodes many a flipped bit into other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflows.facts import Fact

CHECKSUMS = ("crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3")
NONE = "none: damage to a chunk may go unnoticed"


def checksums_in(codecs: Sequence[str]) -> list[str]:
    """The checksums among an array's codecs."""
    return [name for name in codecs if name in CHECKSUMS]


def checksum_facts(codecs: Mapping[str, Sequence[str]]) -> list[Fact]:
    """What checksums a store's arrays have: one fact if all are alike, else one that says which have none too.

    Args:
        codecs: Of each array, by name.
    """
    with_them = {name: checksums_in(names) for name, names in codecs.items()}
    kinds = sorted({kind for kinds in with_them.values() for kind in kinds})
    without = [name for name, kinds in with_them.items() if not kinds]
    if not kinds:
        return [Fact("checksums", [], NONE)]
    facts = [Fact("checksums", kinds, ", ".join(kinds))]
    if without:
        said = f"{', '.join(without)}: damage to their chunks may go unnoticed"
        facts.append(Fact("without_checksums", without, said))
    return facts
