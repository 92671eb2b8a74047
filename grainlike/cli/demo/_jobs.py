"""Jobs of the demonstration: ordinary functions of a user's program, which depend on no executor.

The same functions make the sequential run that the sweep is measured against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from grainlike import GVAR

__all__ = ["FOLDS", "Candidate", "candidates", "cross_validate", "data_set", "refit"]

FOLDS = 5
MACHINE, TREES = "SVC", "ExtraTrees"


@dataclass(frozen=True)
class Candidate:
    """A model family and the parameters to try."""

    family: str
    parameters: dict[str, float]

    def __str__(self) -> str:
        return " ".join([self.family, *(f"{name}={value:g}" for name, value in self.parameters.items())])


def candidates(*, quick: bool = False) -> list[Candidate]:
    """Return the candidates. The slow ones come first, so that no long fit is left alone at the end."""
    members, features = ((20,), (2, 8)) if quick else ((100, 75, 50, 25), (24, 12, 6, 3))
    forests = [
        Candidate(TREES, {"n_estimators": count, "max_features": width}) for count in members for width in features
    ]
    penalties = (1, 10) if quick else (0.3, 1, 3, 10, 30, 100, 300, 1000)
    gammas = (0.0005, 0.002) if quick else (0.004, 0.002, 0.001, 0.0005, 0.0003, 0.0001)
    return forests + [Candidate(MACHINE, {"C": c, "gamma": gamma}) for gamma in gammas for c in penalties]


@lru_cache(maxsize=1)
def data_set() -> Sequence[Any]:
    """Return the digits, as training images, test images, training labels, test labels: one in four is held out.

    Every process loads them for itself, once: scikit-learn brings them along, so they need not travel.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    split: Sequence[Any] = train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)
    return split


def cross_validate(candidate: Candidate) -> list[float]:
    """Return the accuracy in each of five folds of the training images."""
    from sklearn.model_selection import cross_val_score

    images, _, labels, _ = data_set()
    return [float(score) for score in cross_val_score(_model(candidate), images, labels, cv=FOLDS)]


def refit(candidate: Candidate, members: int) -> tuple[int, int]:
    """Train a committee of `members` such models in as many threads as this job has cores.

    Returns how many of the held-out images it reads right, and how many there are.
    """
    from joblib import parallel_config
    from sklearn.ensemble import BaggingClassifier

    images, unseen, labels, truth = data_set()
    with parallel_config(backend="threading"):
        committee = BaggingClassifier(_model(candidate), members, n_jobs=max(1, GVAR.res.c), random_state=0)
        right = committee.fit(images, labels).predict(unseen) == truth
    return int(right.sum()), len(truth)


def _model(candidate: Candidate) -> Any:
    if candidate.family == TREES:
        from sklearn.ensemble import ExtraTreesClassifier

        return ExtraTreesClassifier(random_state=0).set_params(**candidate.parameters)
    from sklearn.svm import SVC

    return SVC().set_params(**candidate.parameters)
