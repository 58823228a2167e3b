"""What can be wrong with a dataset. All are `ValueError`s, so the command line turns them into one line."""

__all__ = [
    "DamagedDatasetError",
    "DatasetError",
    "DatasetNotFoundError",
    "DownloadError",
    "UnknownDatasetError",
]


class DatasetError(ValueError):
    """Base of every error this package raises about data."""


class UnknownDatasetError(DatasetError):
    """Neither a known name nor a folder in a known format."""


class DatasetNotFoundError(DatasetError):
    """A known dataset that is not on this machine."""


class DamagedDatasetError(DatasetError):
    """The data on disk contradict themselves: the message names the array and, where there is one, the chunk."""


class DownloadError(DatasetError):
    """An archive that could not be fetched, verified or unpacked."""
