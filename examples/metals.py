"""A campaign with ASE: lattice constants and bulk moduli of metals, from energies at several volumes.

Each energy is a job on one core; each fit waits for the energies of its metal alone, and runs while others are still
computed. The potential is ASE's own EMT, which is quick. For a real one, put its calculator into `energy`, and what it
needs into the request: `energy @ (Cores(16) & Memory("8Gi") & WallTime("2:00:00"))`.

To go on after the program or the machine has failed, give the campaign a session on a head with a journal, and each
call a name: `connect(session="metals")`, `ex.name(f"{symbol} {strain}", call, exist_ok=True)`. It takes `pip install
ase`.

It prints::

    metal  a (Å)  B (GPa)  of the experiment
       Al   4.00     35.2               4.05
       Cu   3.59    132.9               3.61
       Ag   4.06     99.7               4.09
       Au   4.06    172.8               4.08
    28 energies, 0 failed
"""

from dataclasses import dataclass

import anyio
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.data import atomic_numbers, reference_states
from ase.eos import EquationOfState
from ase.units import GPa

from grainlike import Cores, Executor, delayed, gather

METALS = ("Al", "Cu", "Ag", "Au")
STRAINS = (0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06)


@dataclass
class Point:
    volume: float
    energy: float


@dataclass
class Metal:
    symbol: str
    lattice: float  # of the cubic cell, in Å
    modulus: float  # in GPa


@delayed
def energy(symbol: str, strain: float) -> Point:
    atoms = bulk(symbol, "fcc", a=reference_states[atomic_numbers[symbol]]["a"] * strain)
    atoms.calc = EMT()
    return Point(atoms.get_volume(), atoms.get_potential_energy())


@delayed
def fit(symbol: str, points: list[Point]) -> Metal:
    volumes, energies = zip(*((point.volume, point.energy) for point in points), strict=True)
    volume, _, modulus = EquationOfState(volumes, energies, eos="birchmurnaghan").fit()
    return Metal(symbol, (4 * volume) ** (1 / 3), modulus / GPa)


async def main() -> None:
    async with Executor(local=Cores(2)) as executor:
        metals_ = [
            (fit @ Cores(1))(symbol, [(energy @ Cores(1))(symbol, strain) for strain in STRAINS]) for symbol in METALS
        ]
        print("metal  a (Å)  B (GPa)  of the experiment")
        for metal in await gather(metals_):
            known = reference_states[atomic_numbers[metal.symbol]]["a"]
            print(f"{metal.symbol:>5} {metal.lattice:6.2f} {metal.modulus:8.1f} {known:18.2f}")
        report = executor.report()
        print(f"{report.succeeded - len(METALS)} energies, {report.failed} failed")


if __name__ == "__main__":
    anyio.run(main)
