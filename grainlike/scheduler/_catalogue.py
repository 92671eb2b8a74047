"""Catalogue of the request classes and shapes of a head, each once, and which of them a connected worker could ever
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from grainlike.resources import Missing, Request, memory_rounded, missing
from grainlike.scheduler._records import RequestClass, Shape
from grainlike.scheduler._statistics import RunTimes
from grainlike.scheduler._workers import WorkerState

__all__ = ["ALIKE_MOST", "KEPT_EMPTY", "Catalogue"]

ALIKE_MOST = 4
"""Number of classes whose requests differ by a few percent of memory in which each request is counted exactly."""

KEPT_EMPTY = 64
"""Number of classes without waiting jobs that are kept in any case, as jobs with the same request may come again; of
unused shapes, twice as many.
"""

_Key = tuple[int, Request, int, bool, int]
"""Key of a class: client, request, priority, isolation and tree."""


class Catalogue:
    """The classes and shapes of one head. `workers` and `trees` are the scheduler's own mappings, not copies.

    Attributes:
        classes: by number.
        shapes: by number; workers name them by it.
        doubted: classes to check again for a worker that could run them: they got jobs, or a worker has left, since.
        may_be_full: False while there is so little here that `is_full` is not worth a call in each step of a job.
    """

    def __init__(self, workers: Mapping[int, WorkerState], trees: dict[int, list[RequestClass]]) -> None:
        self.classes: dict[int, RequestClass] = {}
        self.shapes: dict[int, Shape] = {}
        self.doubted: dict[int, RequestClass] = {}
        self.may_be_full = False
        self._workers = workers
        self._trees = trees
        self._class_ids: dict[_Key, RequestClass] = {}
        self._near_ids: dict[tuple[_Key, int], RequestClass] = {}
        """Classes of jobs that need values, by the worker that they prefer, too."""
        self._last_class = 0
        self._last_shape = 0
        self._options = 0
        """Number of shapes of all classes, counted for each class."""
        self._trees_most = 8
        self._at_work = 0
        """Number of shapes in use without a class, as of the last count."""
        self._groups: dict[str, RunTimes] = {}
        self._shape_ids: dict[tuple[Request, bool], Shape] = {}
        self._alike: dict[_Key, int] = {}
        """Number of classes that one class for the rounded request could stand for, by the key of that."""

    def class_of(self, client: int, request: Request, priority: int, *, isolate: bool, root: int = 0) -> RequestClass:
        """Return the one class of a request, in the tree `root`; 0 for jobs of the user's program."""
        key = (client, request, priority, isolate, root)
        found = self._class_ids.get(key)
        return self._made(key, _rounded(key)) if found is None else found

    def class_for(self, client: int, request: Request, priority: int, *, isolate: bool, root: int = 0) -> RequestClass:
        """Return the class in which jobs with this request queue: as `class_of`; or, where more than `ALIKE_MOST`
        classes differ by a few percent of memory, the one of the request with its memory rounded up.

        It is never rounded up beyond what the workers here have.
        """
        key = (client, request, priority, isolate, root)
        found = self._class_ids.get(key)
        if found is not None:
            return found
        alike = _rounded(key)
        if alike is None:
            return self._made(key, None)
        cls = self._class_ids.get(alike)
        if cls is None and self._alike.get(alike, 0) >= ALIKE_MOST:
            cls = self._made(alike, alike)
        if cls is not None and (self._has_fitted(cls) or not self._workers or self.anybody_fits(cls)):
            return cls
        return self._made(key, alike)

    def _has_fitted(self, cls: RequestClass) -> bool:
        """Return True if jobs of a class wait for which there was a worker when that was last checked."""
        return cls.head() is not None and cls.id not in self.doubted

    def near(self, cls: RequestClass, worker: int) -> RequestClass:
        """Return the class of jobs like those of `cls` that prefer a worker, as values that they need are there."""
        found = self._near_ids.get((_key(cls), worker))
        return self._made(_key(cls), None, worker) if found is None else found

    def queued_near(self, cls: RequestClass, worker: int) -> int:
        """Return how many jobs of the request of `cls` queue near a worker."""
        found = self._near_ids.get((_key(cls), worker))
        return 0 if found is None else found.queued

    def _made(self, key: _Key, alike: _Key | None, near: int = 0) -> RequestClass:
        """Return a new class; `alike` as for `_know`."""
        client, request, priority, isolate, root = key
        shapes = tuple([self.shape_of(option, isolate=isolate) for option in request.options])
        self._last_class += 1
        made = RequestClass(self._last_class, client, request, priority, shapes, isolate=isolate, root=root, near=near)
        self._know(made, key, alike)
        return made

    def like(self, cls: RequestClass, request: Request, *, isolate: bool) -> RequestClass:
        """Return the class of another request of the same client, tree and priority."""
        return self.class_of(cls.client, request, cls.priority, isolate=isolate, root=cls.root)

    def back(self, cls: RequestClass) -> RequestClass:
        """Return the class for jobs that come back to `cls`: an equal one that was made since, if `cls` was dropped."""
        if cls.id in self.classes:
            return cls
        found = self._near_ids.get((_key(cls), cls.near)) if cls.near else self._class_ids.get(_key(cls))
        if found is None:
            self.know(cls)
            return cls
        return found

    def know(self, cls: RequestClass) -> None:
        """Register a class, new or dropped before."""
        key = _key(cls)
        self._know(cls, key, None if cls.near else _rounded(key))

    def _know(self, cls: RequestClass, key: _Key, alike: _Key | None) -> None:
        """Register a class with its key, and that of the class for its rounded request; None where there is none."""
        self.classes[cls.id] = cls
        if cls.near:
            self._near_ids[key, cls.near] = cls
        else:
            self._class_ids[key] = cls
        if alike is not None:
            self._alike[alike] = self._alike.get(alike, 0) + 1
        self._options += len(cls.shapes)
        if cls.root:
            self._trees.setdefault(cls.root, []).append(cls)
        self._look_at_size()

    def _look_at_size(self) -> None:
        self.may_be_full = (
            len(self.classes) > KEPT_EMPTY or len(self.shapes) > 2 * KEPT_EMPTY or len(self._trees) > self._trees_most
        )

    # --- unused classes and shapes -----------------------------------------------------------------------------------

    def is_full(self, waiting: int) -> bool:
        """Return True if `forget` is due: at most half of the classes or shapes may be in use. `waiting`: number of
        classes with waiting jobs.
        """
        return (
            len(self._trees) > self._trees_most
            or len(self.classes) > KEPT_EMPTY + 2 * waiting
            or len(self.shapes) > 2 * KEPT_EMPTY + 2 * (self._options + self._at_work)
        )

    def forget(self, waiting: int, at_work: Callable[[], Iterable[Shape]], held: int) -> list[int]:
        """Drop the classes without waiting jobs, and the shapes that neither a class nor a job needs any more.

        Jobs of such classes that run now may come back; see `back`.

        Args:
            waiting: number of classes with waiting jobs.
            at_work: returns the shapes of all jobs at workers or in backoff; called only if needed.
            held: number of those jobs, which is what a call of `at_work` costs.

        Returns:
            The numbers of the dropped shapes. They are never given again.
        """
        self._forget_empty(waiting)
        gone = self._forget_shapes(at_work, held) if len(self.shapes) > 2 * (KEPT_EMPTY + self._options) else []
        self._look_at_size()
        return gone

    def _forget_shapes(self, at_work: Callable[[], Iterable[Shape]], held: int) -> list[int]:
        used = {shape.id for cls in self.classes.values() for shape in cls.shapes}
        of_classes = len(used)
        used.update(shape.id for shape in at_work())
        self._at_work = max(len(used) - of_classes, held // 8)
        gone = [number for number in self.shapes if number not in used]
        for number in gone:
            del self.shapes[number]
        self._shape_ids = {key: shape for key, shape in self._shape_ids.items() if shape.id in used}
        return gone

    def _forget_empty(self, waiting: int) -> None:
        """Drop empty classes of trees, which are needed again only while the tree lives; if classes are many, all empty
        ones.
        """
        many = len(self.classes) > KEPT_EMPTY + 2 * waiting
        classes = self.classes.values() if many else chain.from_iterable(self._trees.values())
        trees: set[int] = set()
        for cls in [cls for cls in classes if cls.place is None and cls.head() is None]:
            del self.classes[cls.id]
            self._drop(cls)
            self.doubted.pop(cls.id, None)
            self._options -= len(cls.shapes)
            cls.blocked_job = None  # break the reference cycle of job and class
            if cls.root:
                trees.add(cls.root)
        for root in trees:
            left = [cls for cls in self._trees[root] if cls.id in self.classes]
            if left:
                self._trees[root] = left
            else:
                del self._trees[root]
        self._trees_most = 8 + 2 * len(self._trees)

    def _drop(self, cls: RequestClass) -> None:
        key = _key(cls)
        if cls.near:
            del self._near_ids[key, cls.near]
            return
        del self._class_ids[key]
        alike = _rounded(key)
        if alike is not None:
            self._alike[alike] -= 1
            if not self._alike[alike]:
                del self._alike[alike]

    def shape_of(self, request: Request, *, isolate: bool) -> Shape:
        """Return the one shape of one way to satisfy a request."""
        key = request, isolate
        found = self._shape_ids.get(key)
        if found is None:
            name = request.terms.group
            group = None if name is None else self._groups.setdefault(name, RunTimes())
            self._last_shape += 1
            found = Shape(self._last_shape, request, group, isolate=isolate)
            self._shape_ids[key] = self.shapes[found.id] = found
        return found

    def left(self, worker: WorkerState) -> None:
        """Drop a worker that is gone from the users of its shapes."""
        for number in worker.using:
            self.shapes[number].users.pop(worker.id, None)

    # --- what can never run ------------------------------------------------------------------------------------------

    def recheck(self, cls: RequestClass) -> None:
        """Have a class checked that had no jobs and got some."""
        self.doubted[cls.id] = cls

    def check_new(self, cls: RequestClass, *, at_once: bool, fits: bool) -> None:
        """Have a class checked that had no jobs and got new ones, if it is not known to fit; mostly it is `at_once`."""
        if not (at_once and (fits or self.anybody_fits(cls))):
            self.doubted[cls.id] = cls

    def doubt_all(self) -> None:
        """Have all classes checked: a worker has left, or refused a shape."""
        self.doubted.update(self.classes)

    def anybody_fits(self, cls: RequestClass) -> bool:
        """Return True if enough workers could ever run a shape of the class: one, or for a gang one per node."""
        return any(map(self._fits_somewhere, cls.shapes))

    def fits_somebody(self, request: Request) -> bool:
        """Return True if the connected workers could ever give what the request asks for."""
        return any(self._fits_somewhere(self.shape_of(option, isolate=False)) for option in request.options)

    def _fits_somewhere(self, shape: Shape) -> bool:
        lacking = shape.nodes
        for worker in self._workers.values():
            if worker.fits_ever(shape):
                lacking -= 1
                if not lacking:
                    return True
        return False

    def why_never(self, request: Request) -> Missing | None:
        """Return what is missing or short; None if amounts suffice and only the layout cannot be given."""
        return missing(request, [(worker.name, worker.lasting_offer) for worker in self.staying()])

    def staying(self) -> Iterator[WorkerState]:
        """Return the workers that may still be given jobs."""
        return (worker for worker in self._workers.values() if not worker.leaving)


def _key(cls: RequestClass) -> _Key:
    return cls.client, cls.request, cls.priority, cls.isolate, cls.root


def _rounded(key: _Key) -> _Key | None:
    """Return the key of the class for the rounded request; None where nothing may be rounded."""
    client, request, priority, isolate, root = key
    rounded = memory_rounded(request)
    return None if rounded is None else (client, rounded, priority, isolate, root)
