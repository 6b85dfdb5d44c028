"""Servers that several tests of runs need."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def object_server():
    """An S3 server of our own; s3:// means it as long as the fixture lasts, in programs that are started too."""
    program = Path(__file__).parent / "object_server.py"
    server = subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    endpoint = server.stdout.readline().strip()
    assert endpoint.startswith("http://127.0.0.1:")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            patch.setenv(name, value)
        yield endpoint
    server.communicate(timeout=30)  # the end of its input is its end
