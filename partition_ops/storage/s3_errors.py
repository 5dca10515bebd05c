"""What botocore raises, in our own words.

No message repeats an access key or a secret: only codes, addresses without their user part, and the
URI of the object.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from boto3.exceptions import Boto3Error
from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError, S3DownloadFailedError
from urllib3.exceptions import HTTPError

from partition_ops.errors import InvalidInputError, StorageError, TransientStorageError, UsageError

MISSING_OBJECT = {"NoSuchKey", "404", "NotFound"}
MISSING_BUCKET = {"NoSuchBucket"}
REFUSED_KEY = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "AuthorizationHeaderMalformed",
    "InvalidClientTokenId",
}
REFUSED = {"AccessDenied", "403", "Forbidden", "AllAccessDisabled", "AccountProblem"}
PASSING = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "RequestTimeout",
    "RequestTimeoutException",
    "InternalError",
    "ServiceUnavailable",
    "OperationAborted",
    "PreconditionFailed",
}
CREDENTIALS = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_ENDPOINT_URL for a server other than AWS), "
    "or the Airflow connection"
)
NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
)
# what OpenSSL makes of an answer in plain HTTP; it differs between its versions
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
GREETING = 3.0  # seconds to wait for the answer
MAY_BE_TLS = (
    HTTPError,
    boto.ConnectionClosedError,
    boto.HTTPClientError,
    boto.ResponseStreamingError,
    boto.IncompleteReadError,
)
BROKEN_CONFIGURATION = (
    boto.ProfileNotFound,
    boto.ConfigNotFound,
    boto.ConfigParseError,
    boto.InvalidConfigError,
)


@contextmanager
def explained(uri: str, endpoint: str | None = None) -> Iterator[None]:
    """Turn the errors of boto3 into ours.

    Args:
        uri: What the work is about, for the message.
        endpoint: Address of the server, for the message.
    """
    try:
        yield
    except (BotoCoreError, ClientError, Boto3Error, HTTPError) as error:
        raise translated(error, uri, endpoint) from error
    except (RetriesExceededError, S3DownloadFailedError) as error:
        raise translated(error, uri, endpoint) from error
    except OSError as error:
        raise StorageError(f"The local copy of {uri} failed: {error.strerror or error}") from error


def translated(error: Exception, uri: str, endpoint: str | None = None) -> Exception:
    """The error of ours that says the same."""
    error = _root(error)
    if _met_tls(error, endpoint):
        return _wrong_scheme(endpoint, "TLS", "https://")
    if isinstance(error, ClientError):
        return _answer(error, uri, endpoint)
    if isinstance(error, S3DownloadFailedError):
        return changed(uri)
    if isinstance(error, NO_CREDENTIALS):
        return StorageError(f"There are no credentials for {uri}", remedy=f"{CREDENTIALS}.")
    if isinstance(error, boto.ParamValidationError | boto.InvalidS3AddressingStyleError):
        return UsageError(f"S3 cannot have such a bucket or key: {uri}")
    if isinstance(error, boto.SSLError):
        return _no_tls(error, endpoint)
    if isinstance(error, BROKEN_CONFIGURATION):
        return StorageError(f"The AWS configuration cannot be used: {error}")
    return TransientStorageError(
        f"{shown(endpoint)} did not answer for {uri}",
        found=type(error).__name__,
        remedy="Check that the server runs and that the address (AWS_ENDPOINT_URL) is right; then try again.",
    )


def _no_tls(error: boto.SSLError, endpoint: str | None) -> StorageError:
    """Why there is no TLS connection."""
    said = str(error).upper().replace(" ", "_")
    if any(words in said for words in NO_TLS):
        return _wrong_scheme(endpoint, "plain HTTP", "http://")
    if "DOESN'T_MATCH" in said or "MISMATCH" in said:
        return StorageError(
            f"The certificate of {shown(endpoint)} is not trusted: it is of another host",
            found=str(error).rpartition("hostname")[2].strip() or str(error),
            remedy="Name the server in AWS_ENDPOINT_URL as its certificate does.",
        )
    if "CERTIFICATE" in said:
        return StorageError(
            f"The certificate of {shown(endpoint)} is not trusted",
            remedy="Set AWS_CA_BUNDLE to the file of the authority that signed it.",
        )
    return StorageError(
        f"There is no TLS connection to {shown(endpoint)}",
        found=str(error)[max(str(error).find("["), 0) :],
        remedy="Check the address (AWS_ENDPOINT_URL, --endpoint-url), AWS_CA_BUNDLE and what is between.",
    )


def _wrong_scheme(endpoint: str | None, found: str, scheme: str) -> StorageError:
    host = shown(endpoint).partition("://")[2]
    return StorageError(
        f"The server does not speak what its address says: {shown(endpoint)}",
        found=found,
        remedy=f"Write {scheme}{host} in AWS_ENDPOINT_URL, in --endpoint-url or in the Airflow connection.",
    )


def _met_tls(error: Exception, endpoint: str | None) -> bool:
    """Whether a request without TLS may have failed because the server wants it, and it does."""
    if not (endpoint or "").startswith("http://"):
        return False
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status == 400 and code_of(error) in ("", "400") and _speaks_tls(endpoint)
    return isinstance(error, MAY_BE_TLS) and _speaks_tls(endpoint)


def _speaks_tls(endpoint: str | None) -> bool:
    """Whether a server answers with TLS, whatever its certificate; nothing is sent but a greeting."""
    address = urlsplit(endpoint or "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError, ValueError):
        place = (address.hostname or "", address.port or 80)
        with (
            socket.create_connection(place, timeout=GREETING) as plain,
            context.wrap_socket(plain, server_hostname=address.hostname),
        ):
            return True
    return False


def changed(uri: str) -> TransientStorageError:
    return TransientStorageError(f"{uri} changed while it was being fetched", remedy="Try again.")


def no_bucket(uri: str, endpoint: str | None) -> StorageError:
    return StorageError(
        f"There is no bucket {uri.split('/')[2]!r} on {shown(endpoint)}",
        remedy="Create it, or correct the URI or AWS_ENDPOINT_URL.",
    )


def shown(endpoint: str | None) -> str:
    """The address of a server without user and password."""
    if not endpoint:
        return "S3"
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def code_of(error: ClientError) -> str:
    """The server's code, such as ``NoSuchKey``; the HTTP status where an answer has no body."""
    return error.response.get("Error", {}).get("Code", "")


def _root(error: Exception) -> Exception:
    """boto3 and s3transfer wrap the error that tells what happened."""
    inner: BaseException | None = None
    if isinstance(error, RetriesExceededError):
        inner = error.last_exception
    elif isinstance(error, Boto3Error):
        inner = error.__cause__ or error.__context__
    return inner if isinstance(inner, Exception) else error


def _answer(error: ClientError, uri: str, endpoint: str | None) -> Exception:
    code = code_of(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in MISSING_OBJECT:
        return InvalidInputError(f"There is no object {uri}", remedy="Check the URI.")
    if code in MISSING_BUCKET:
        return no_bucket(uri, endpoint)
    if code in REFUSED_KEY:
        return StorageError(
            f"{shown(endpoint)} does not accept the credentials for {uri}",
            found=code,
            remedy=f"{CREDENTIALS}.",
        )
    if code in REFUSED:
        return StorageError(
            f"{shown(endpoint)} refuses access to {uri}",
            found=code,
            remedy=f"Check the credentials and what they may do with the bucket. {CREDENTIALS}.",
        )
    if code in PASSING or status >= 500 or status == 429:
        return TransientStorageError(
            f"{shown(endpoint)} could not do its work for {uri}", found=code, remedy="Try again later."
        )
    return StorageError(f"{shown(endpoint)} refused a request for {uri}", found=f"{code} ({status})")
