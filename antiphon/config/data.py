"""Settings of stored data and of jobs."""

import os
import sys
from pathlib import Path

from pydantic import Field

from antiphon.config.base import SettingsSection


def _user_data_folder() -> Path:
    if chosen := os.environ.get("XDG_DATA_HOME"):
        return Path(chosen) / "antiphon"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")) / "antiphon"
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/antiphon")
    return Path("~/.local/share/antiphon")


class DataSettings(SettingsSection):
    """Stored data: uploaded voices and consents."""

    dir: Path | None = Field(
        None, description="Folder for it, on a disk of this machine; default: the user's own."
    )
    blobs_url: str | None = Field(
        None, description="Where recordings are kept, as s3://bucket/path; default: in the folder."
    )
    max_voices: int = Field(
        1000, ge=0, description="Most voices that may be uploaded, and most consents."
    )
    max_owner_voices: int = Field(
        0, ge=0, description="Most voices, and most consents, of one owner. 0: no further limit."
    )
    min_free_mib: int = Field(
        100, ge=0, description="Nothing is stored that would leave less of the disk free."
    )

    @property
    def folder(self) -> Path:
        """Data folder, which may not exist yet."""
        return (self.dir or _user_data_folder()).expanduser()


class JobSettings(SettingsSection):
    """Background jobs, which speak long texts."""

    max_jobs: int = Field(1000, ge=0, description="Most jobs that are kept, those at an end too.")
    max_owner_jobs: int = Field(0, ge=0, description="Most jobs of one owner. 0: no further limit.")
    max_input_characters: int = Field(5_000_000, ge=1, description="Longest text of one job.")
    max_gib: float = Field(
        0.0, ge=0, description="Disk that all jobs together may take. 0: what is free."
    )
    max_owner_gib: float = Field(
        0.0, ge=0, description="Disk that one owner's jobs may take. 0: no further limit."
    )
    max_crashes: int = Field(
        2, ge=1, description="A job under which servers have died so often is given up."
    )
    media_url: str | None = Field(
        None,
        description="Where results are kept, as s3://bucket/path; default: below"
        " media.output_fs_url, or else in the folder.",
    )
