"""SignedUrls: URLs for reading the objects of a bucket, signed by this module instead of by botocore's client.

Signed URLs are used where obstore cannot be used: in processes that were forked after it was loaded, for keys that it
rejects, and if the trusted certificates are in a file. A URL is signed once and then used for many requests. A request
through the client of botocore takes 2 to 3 ms of CPU time, most of it to find the endpoint, to sign, and to parse the
headers; one with a signed URL takes 0.25 ms.

botocore determines the address of a bucket, because it implements the rules for regions, host names, and custom
endpoints. It is asked once for each bucket.

Source: Signature Version 4 of Amazon S3, with the signature in the query; our measurements.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, Final
from urllib.parse import quote

__all__ = ["SignedUrls"]

_VALID_SECONDS: Final = 3600
_USED_SECONDS: Final = 900
"""Number of seconds for which a URL is valid, and number of seconds for which it is used. Temporary credentials may
expire earlier: see :meth:`forget`."""

_MAX_URLS: Final = 4096


class SignedUrls:
    """The signed URLs of the objects that one client reads. To be used in the thread of the client's event loop.

    Args:
        anonymous: whether the URLs are not signed.
    """

    def __init__(self, *, anonymous: bool = False) -> None:
        """Create an empty cache."""
        self._anonymous = anonymous
        self._buckets: dict[str, str] = {}
        self._urls: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()

    async def url(self, api: Any, bucket: str, key: str) -> str:
        """Return a URL for reading an object.

        Args:
            api: the client of aiobotocore.
            bucket: name of the bucket.
            key: key of the object.
        """
        signed_at, url = self._urls.get((bucket, key), (0.0, ""))
        if not url or time.monotonic() - signed_at > _USED_SECONDS:
            url = await self._sign(api, await self.root(api, bucket) + quote(key, safe="/~"))
            self._urls[bucket, key] = time.monotonic(), url
            if len(self._urls) > _MAX_URLS:
                self._urls.popitem(last=False)
        return url

    def forget(self, bucket: str, key: str) -> None:
        """Discard the URL of an object, because a request with it failed; the next request signs a new one."""
        self._urls.pop((bucket, key), None)

    async def root(self, api: Any, bucket: str) -> str:
        """Return the URL of a bucket; it ends with a slash."""
        root = self._buckets.get(bucket)
        if root is None:
            url: str = await api.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
            root = self._buckets[bucket] = url.partition("?")[0].removesuffix("k")
        return root

    async def _sign(self, api: Any, url: str) -> str:
        from botocore.auth import S3SigV4QueryAuth
        from botocore.awsrequest import AWSRequest

        # The client has no public attribute for them.
        credentials = api._request_signer._credentials
        if self._anonymous or credentials is None:
            return url
        request = AWSRequest("GET", url)
        frozen = await credentials.get_frozen_credentials()
        S3SigV4QueryAuth(frozen, "s3", api.meta.region_name, expires=_VALID_SECONDS).add_auth(request)
        signed: str = request.url
        return signed
