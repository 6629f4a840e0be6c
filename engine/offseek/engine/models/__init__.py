"""Models on disk (install, find) and in memory (`config`, `weights`, `transformer`). Importing this loads no torch."""

from .install import DEFAULT_MODEL, KNOWN_MODELS, KnownModel, install_model, known_model, model_path, models_dir

__all__ = ["DEFAULT_MODEL", "KNOWN_MODELS", "KnownModel", "install_model", "known_model", "model_path", "models_dir"]
