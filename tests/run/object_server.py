"""An S3 server on this machine, with one bucket; ends with its standard input."""

import logging
import os
import sys

from moto.server import ThreadedMotoServer

os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_DEFAULT_REGION="us-east-1")


def main() -> None:
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="rci-tests")
    print(endpoint, flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
