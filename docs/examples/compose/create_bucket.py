"""Creates the bucket of the warehouse, if it does not exist."""

import os
from urllib.parse import urlsplit

import botocore.session

s3 = botocore.session.get_session().create_client("s3", endpoint_url=os.environ["AWS_ENDPOINT"])
bucket = urlsplit(os.environ["LANCE_PIPELINES_WAREHOUSE"]).netloc
if bucket not in {known["Name"] for known in s3.list_buckets()["Buckets"]}:
    s3.create_bucket(Bucket=bucket)
