"""The K lines of the elements that calibrate X-ray detectors."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class KLines:
    """The Kα and the Kβ lines of an element, each group as the one line that a detector of some 100 eV sees.

    Attributes:
        element: Its symbol.
        k_alpha_keV: Mean energy of Kα₁ and Kα₂, keV.
        k_beta_keV: Mean energy of the Kβ lines, keV.
        beta_over_alpha: Kβ photons per Kα photon, as emitted. What a detector counts differs by what the sensor and
            the windows absorb.
    """

    element: str
    k_alpha_keV: float  # noqa: N815 (the unit's own spelling)
    k_beta_keV: float  # noqa: N815
    beta_over_alpha: float

    def __post_init__(self) -> None:
        """Refuse what are no lines.

        Raises:
            ValueError: An energy that is not above 0, or a share below 0.
        """
        energies = (self.k_alpha_keV, self.k_beta_keV)
        if not (all(0 < energy < inf for energy in energies) and 0 <= self.beta_over_alpha < inf):
            raise ValueError(f"{self} can't be: energies are above 0, and Kβ photons per Kα photon not below.")


# Energies: Bearden, Rev. Mod. Phys. 39 (1967) 78, as in the X-Ray Data Booklet (LBNL, 2009), table 1-2. Kα is the mean
# of Kα₁ and Kα₂ by their intensities (table 1-3), so for Mn (5.89875 + 0.50·5.88765)/1.50; Kβ is Kβ₁,₃ up to Zn, beyond
# it the mean of Kβ₁, Kβ₂ and Kβ₃ by the intensities of Elam.
# Kβ/Kα: Elam, Ravel, Sieber, Radiat. Phys. Chem. 63 (2002) 121, as in XrayDB 4.5.
_TABLE = (
    KLines("Ti", 4.5088, 4.9318, 0.138),
    KLines("V", 4.9497, 5.4273, 0.140),
    KLines("Cr", 5.4116, 5.9467, 0.141),
    KLines("Mn", 5.89505, 6.49045, 0.142),
    KLines("Fe", 6.3995, 7.0580, 0.143),
    KLines("Co", 6.9252, 7.6494, 0.145),
    KLines("Ni", 7.4723, 8.2647, 0.146),
    KLines("Cu", 8.0410, 8.9053, 0.147),
    KLines("Zn", 8.6311, 9.5720, 0.149),
    KLines("Ge", 9.8759, 10.9807, 0.151),
    KLines("Se", 11.2084, 12.4990, 0.159),
    KLines("Zr", 15.7463, 17.7036, 0.185),
    KLines("Mo", 17.4434, 19.6538, 0.190),
    KLines("Ag", 22.1031, 25.0179, 0.203),
    KLines("Sn", 25.1926, 28.5817, 0.209),
)
_BY_ELEMENT = {lines.element: lines for lines in _TABLE}


def k_lines(element: str) -> KLines:
    """The K lines of an element: `k_lines("Mn")` for ⁵⁵Fe, which decays to manganese.

    Raises:
        ValueError: The element is not in the table; make `KLines` of your own.
    """
    if element not in _BY_ELEMENT:
        raise ValueError(
            f"There are no K lines of {element!r} in the table, which has {', '.join(_BY_ELEMENT)}; "
            "give analysis.KLines(element, k_alpha_keV, k_beta_keV, beta_over_alpha)."
        )
    return _BY_ELEMENT[element]
