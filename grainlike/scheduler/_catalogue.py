"""Which request classes and shapes a head has, each of them once; and whether anybody here could ever run them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from grainlike.resources import Missing, Request, missing
from grainlike.scheduler._books import Job, Shape, WorkerBook
from grainlike.scheduler._queues import RequestClass
from grainlike.scheduler._statistics import RunTimes

__all__ = ["KEPT_EMPTY", "Catalogue"]

KEPT_EMPTY = 64
"""How many classes in which nothing waits are kept in any case: jobs that ask for the same may come again."""


class Catalogue:
    """The classes and shapes of one head. `jobs`, `workers` and `trees` are the mind's own, live.

    Attributes:
        classes: by number.
        shapes: what travels to workers by number.
        doubted: the classes that got jobs, or lost a worker, since somebody here was seen to be able to run theirs.
    """

    def __init__(
        self, jobs: Mapping[int, Job], workers: Mapping[int, WorkerBook], trees: dict[int, list[RequestClass]]
    ) -> None:
        self.classes: dict[int, RequestClass] = {}
        self.shapes: dict[int, Shape] = {}
        self.doubted: dict[int, RequestClass] = {}
        self._jobs = jobs
        self._workers = workers
        self._trees = trees
        self._class_ids: dict[tuple[int, Request, int, bool, int], RequestClass] = {}
        self._last_class = 0
        self._sweep_at = 8
        self._of_programs = 0
        """How many of the classes are of no tree."""
        self._groups: dict[str, RunTimes] = {}
        self._shape_ids: dict[tuple[Request, bool], Shape] = {}

    def class_of(self, client: int, request: Request, priority: int, *, isolate: bool, root: int = 0) -> RequestClass:
        """The one class of a request, in the tree `root` if it is not the program's own."""
        key = (client, request, priority, isolate, root)
        found = self._class_ids.get(key)
        if found is None:
            shapes = tuple(self.shape_of(option, isolate=isolate) for option in request.options)
            self._last_class += 1
            found = RequestClass(self._last_class, client, request, priority, shapes, isolate=isolate, root=root)
            if root and len(self._trees) > self._sweep_at:
                self._sweep()
            self.know(found)
        return found

    def like(self, cls: RequestClass, request: Request, *, isolate: bool) -> RequestClass:
        """The class of another request of the same client, tree and priority."""
        return self.class_of(cls.client, request, cls.priority, isolate=isolate, root=cls.root)

    def back(self, cls: RequestClass) -> RequestClass:
        """The class for jobs that come back to `cls`: another one, if it was forgotten and the like came since."""
        if cls.cls in self.classes:
            return cls
        found = self._class_ids.get((cls.client, cls.request, cls.priority, cls.isolate, cls.root))
        if found is None:
            self.know(cls)
            return cls
        return found

    def know(self, cls: RequestClass) -> None:
        """Take a class in; one that was forgotten comes back."""
        self._class_ids[cls.client, cls.request, cls.priority, cls.isolate, cls.root] = self.classes[cls.cls] = cls
        self._of_programs += not cls.root
        if cls.root:
            self._trees.setdefault(cls.root, []).append(cls)

    def forget_empty(self, waiting: int) -> None:
        """Forget the classes of programs in which nothing waits, if they are more than those in which something does.

        What runs of them may come back, see `back`. `waiting`: in how many classes something waits.
        """
        if self._of_programs <= KEPT_EMPTY + 2 * waiting:
            return
        for cls in [cls for cls in self.classes.values() if not cls.root and cls.place is None and cls.head() is None]:
            del self.classes[cls.cls]
            del self._class_ids[cls.client, cls.request, cls.priority, cls.isolate, 0]
            self.doubted.pop(cls.cls, None)
            self._of_programs -= 1

    def _sweep(self) -> None:
        """Forget the classes of trees that have ended, when there are twice as many as after the last time.

        A job of such a tree may still run somewhere, and come back: who queues it again brings its class back then.
        """
        trees = self._trees
        for root in [root for root in trees if root not in self._jobs]:
            for cls in [cls for cls in trees[root] if cls.head() is None and cls.place is None]:
                trees[root].remove(cls)
                del self.classes[cls.cls]
                del self._class_ids[cls.client, cls.request, cls.priority, cls.isolate, root]
            if not trees[root]:
                del trees[root]
        self._sweep_at = 8 + 2 * len(trees)

    def shape_of(self, request: Request, *, isolate: bool) -> Shape:
        """The one shape of one way to satisfy a request."""
        found = self._shape_ids.get((request, isolate))
        if found is None:
            name = request.walltime_group
            group = None if name is None else self._groups.setdefault(name, RunTimes())
            found = Shape(len(self.shapes) + 1, request, group, isolate=isolate)
            self._shape_ids[request, isolate] = self.shapes[found.shape] = found
        return found

    # --- what can never run ------------------------------------------------------------------------------------------

    def doubt(self, cls: RequestClass) -> None:
        """Jobs wait in a class that had none."""
        self.doubted[cls.cls] = cls

    def doubt_all(self) -> None:
        """A worker has left, or refused a shape: classes that somebody could run may have nobody now."""
        self.doubted.update(self.classes)

    def anybody_fits(self, cls: RequestClass) -> bool:
        """Whether, of some shape of the class, there is a worker for a job, and for a gang as many as it has nodes."""
        return any(map(self._fits_somewhere, cls.shapes))

    def fits_somebody(self, request: Request) -> bool:
        """Whether the workers that are here could ever give what this asks for."""
        return any(self._fits_somewhere(self.shape_of(option, isolate=False)) for option in request.options)

    def _fits_somewhere(self, shape: Shape) -> bool:
        fitting = (worker for worker in self._workers.values() if worker.fits_ever(shape))
        return sum(1 for _ in islice(fitting, shape.nodes)) == shape.nodes

    def why_never(self, request: Request) -> Missing | None:
        """What is missing or short; None where amounts would do, not the layout."""
        return missing(request, [(worker.name, worker.offer) for worker in self.staying()])

    def staying(self) -> Iterator[WorkerBook]:
        """The workers that may still be given jobs."""
        return (worker for worker in self._workers.values() if not worker.leaving)
