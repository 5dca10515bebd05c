"""What botocore raises, in our own words.

No message repeats an access key or a secret: only codes, addresses without their user part, and the
URI of the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from boto3.exceptions import Boto3Error
from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError, S3DownloadFailedError

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
    except (BotoCoreError, ClientError, Boto3Error, RetriesExceededError, S3DownloadFailedError) as error:
        raise translated(error, uri, endpoint) from error
    except OSError as error:
        raise StorageError(f"The local copy of {uri} failed: {error.strerror or error}") from error


def translated(error: Exception, uri: str, endpoint: str | None = None) -> Exception:
    """The error of ours that says the same."""
    error = _root(error)
    if isinstance(error, ClientError):
        return _answer(error, uri, endpoint)
    if isinstance(error, S3DownloadFailedError):
        return changed(uri)
    if isinstance(error, NO_CREDENTIALS):
        return StorageError(f"There are no credentials for {uri}", remedy=f"{CREDENTIALS}.")
    if isinstance(error, boto.ParamValidationError | boto.InvalidS3AddressingStyleError):
        return UsageError(f"S3 cannot have such a bucket or key: {uri}")
    if isinstance(error, boto.SSLError):
        return StorageError(
            f"The certificate of {shown(endpoint)} is not trusted",
            remedy="Set AWS_CA_BUNDLE to the file of the authority that signed it.",
        )
    if isinstance(error, BROKEN_CONFIGURATION):
        return StorageError(f"The AWS configuration cannot be used: {error}")
    return TransientStorageError(
        f"{shown(endpoint)} did not answer for {uri}",
        found=type(error).__name__,
        remedy="Check that the server runs and that the address (AWS_ENDPOINT_URL) is right; then try again.",
    )


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
