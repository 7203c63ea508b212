"""What a caller can put right: the command line prints each as one line and exits with 2."""


class NormscopeError(ValueError):
    """The parent of every error below."""


class ImageError(NormscopeError):
    """One image file could not be read; the message says why, without the path."""


class ImageFolderError(NormscopeError):
    """A folder or a set of images that cannot be learnt from or scored."""


class SettingError(NormscopeError):
    """An unknown method or setting, or a value of the wrong type."""


class DatasetError(NormscopeError):
    """A benchmark file that is missing, truncated or not what its publisher released."""


class ModelFileError(NormscopeError):
    """A model file that is something else, was cut short, or differs from what was saved."""


class CheckpointError(NormscopeError):
    """A checkpoint that cannot be continued from."""


class TrainingError(NormscopeError):
    """Training met a value that is not finite, or ended in a collapse."""


class NotFiniteError(NormscopeError):
    """A score or a heat map is NaN or infinite; the message says of which image."""


class CollapseError(TrainingError):
    """Training ended in a collapse: all images have the same code, or codes that say nothing of them."""


class RankLostError(NormscopeError):
    """One of several processes that train together has ended, and so must the others."""


class ClusterError(NormscopeError):
    """A Ray cluster that failed, or a folder that has parts of another run."""


class ExportError(NormscopeError):
    """A model that cannot be exported, or whose export disagrees with it."""


class NotFittedError(NormscopeError):
    """A detector was asked for a score before `fit`."""
