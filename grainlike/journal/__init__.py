"""Keeps what must outlive the process: records, on the disk, in the order in which they were appended.

Answers: what was appended before the last crash (`Journal.open`), how a record gets there (`append`), up to which one
the disk has it for certain (`synced`), how the log is kept short (`begin_segment`, `commit_image`, `forget_before`),
and what lies in a directory (`survey`). And how objects become an image that is no pickle, and again objects
(`draw_image`, `read_image`): of which classes is its user's to say.

Never looks into a record: what is said is its user's. It would rather refuse a damaged journal than leave a record out.
Neighbours: the head writes its inputs here, and reads them when it is started again.
"""

from grainlike.journal._disk import Disk
from grainlike.journal._image import commit_image
from grainlike.journal._journal import Journal
from grainlike.journal._objects import Conversion, Record, draw_image, fields_of, read_image
from grainlike.journal._recovery import Records, Recovered
from grainlike.journal._survey import Damage, FileReport, Survey, survey

__all__ = [
    "Conversion",
    "Damage",
    "Disk",
    "FileReport",
    "Journal",
    "Record",
    "Records",
    "Recovered",
    "Survey",
    "commit_image",
    "draw_image",
    "fields_of",
    "read_image",
    "survey",
]
