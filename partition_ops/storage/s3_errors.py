"""Translation of the errors of boto3 into those of this library.

Messages never contain an access key or a secret: only error codes, addresses without their user part, and
the URI of the object.
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
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from partition_ops.errors import InvalidInputError, StorageError, TransientStorageError, UsageError

MISSING_OBJECT = {"NoSuchKey", "404", "NotFound"}
MISSING_BUCKET = {"NoSuchBucket"}
UNMET = {"PreconditionFailed", "412"}
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
    "BadDigest",
    "XAmzContentSHA256Mismatch",
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
# errors of different OpenSSL versions for an answer in plain HTTP
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
HANDSHAKE_TIMEOUT = 3.0  # seconds
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
def explain_s3_errors(uri: str, endpoint: str | None = None) -> Iterator[None]:
    """Turn the errors of boto3 into those of this library.

    Args:
        uri: URI of the object or root, for the message.
        endpoint: Address of the server, for the message.
    """
    try:
        yield
    except (BotoCoreError, ClientError, Boto3Error, HTTPError, ResponseParserError) as error:
        raise translate_error(error, uri, endpoint) from error
    except OSError as error:
        raise StorageError(f"The local copy of {uri} failed: {error.strerror or error}") from error


def translate_error(error: Exception, uri: str, endpoint: str | None = None) -> Exception:
    """Return the error of this library that corresponds to one of boto3."""
    if _server_wants_tls(error, endpoint):
        return _wrong_scheme(endpoint, "TLS", "https://")
    if isinstance(error, ClientError):
        return _answer(error, uri, endpoint)
    if isinstance(error, NO_CREDENTIALS):
        return StorageError(f"There are no credentials for {uri}", remedy=f"{CREDENTIALS}.")
    if isinstance(error, boto.ParamValidationError | boto.InvalidS3AddressingStyleError):
        return UsageError(f"This is not a valid bucket or key of S3: {uri}")
    if isinstance(error, boto.SSLError):
        return _no_tls(error, endpoint)
    if isinstance(error, BROKEN_CONFIGURATION):
        return StorageError(f"The AWS configuration cannot be used: {error}")
    return TransientStorageError(
        f"{public_address(endpoint)} did not answer for {uri}",
        found=type(error).__name__,
        remedy="Check that the server runs and that the address (AWS_ENDPOINT_URL) is right; then retry.",
    )


def _no_tls(error: boto.SSLError, endpoint: str | None) -> StorageError:
    """Return an error that says why no TLS connection could be made."""
    text = str(error).upper().replace(" ", "_")
    if any(words in text for words in NO_TLS):
        return _wrong_scheme(endpoint, "plain HTTP", "http://")
    if "DOESN'T_MATCH" in text or "MISMATCH" in text:
        return StorageError(
            f"The certificate of {public_address(endpoint)} is not trusted: it belongs to another host",
            found=str(error).rpartition("hostname")[2].strip() or str(error),
            remedy="Use the host name of the certificate in AWS_ENDPOINT_URL.",
        )
    if "CERTIFICATE" in text:
        return StorageError(
            f"The certificate of {public_address(endpoint)} is not trusted",
            remedy="Set AWS_CA_BUNDLE to the certificate file of the authority that signed it.",
        )
    return StorageError(
        f"There is no TLS connection to {public_address(endpoint)}",
        found=str(error)[max(str(error).find("["), 0) :],
        remedy="Check the address (AWS_ENDPOINT_URL, --endpoint-url), AWS_CA_BUNDLE and any proxy.",
    )


def _wrong_scheme(endpoint: str | None, found: str, scheme: str) -> StorageError:
    host = public_address(endpoint).partition("://")[2]
    return StorageError(
        f"The server does not use the scheme of its address: {public_address(endpoint)}",
        found=found,
        remedy=f"Write {scheme}{host} in AWS_ENDPOINT_URL, in --endpoint-url or in the Airflow connection.",
    )


def _server_wants_tls(error: Exception, endpoint: str | None) -> bool:
    """Return whether a request without TLS failed and the server answers with TLS."""
    if not (endpoint or "").startswith("http://"):
        return False
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status == 400 and error_code(error) in ("", "400") and _speaks_tls(endpoint)
    return isinstance(error, MAY_BE_TLS) and _speaks_tls(endpoint)


def _speaks_tls(endpoint: str | None) -> bool:
    """Return whether a server answers a TLS handshake, with any certificate; nothing else is sent."""
    address = urlsplit(endpoint or "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError, ValueError):
        place = (address.hostname or "", address.port or 80)
        with (
            socket.create_connection(place, timeout=HANDSHAKE_TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=address.hostname),
        ):
            return True
    return False


def changed_during_download(uri: str) -> TransientStorageError:
    return TransientStorageError(f"{uri} changed while it was downloaded", remedy="Retry.")


def missing_object(uri: str) -> InvalidInputError:
    return InvalidInputError(f"There is no object {uri}", remedy="Check the URI.")


def missing_bucket(uri: str, endpoint: str | None) -> StorageError:
    return StorageError(
        f"There is no bucket {uri.split('/')[2]!r} on {public_address(endpoint)}",
        remedy="Create it, or correct the URI or AWS_ENDPOINT_URL.",
    )


def public_address(endpoint: str | None) -> str:
    """Return the address of a server without user and password."""
    if not endpoint:
        return "S3"
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def error_code(error: ClientError) -> str:
    """Return the server's code, such as ``NoSuchKey``, or the HTTP status if the answer has no body."""
    return error.response.get("Error", {}).get("Code", "")


def _answer(error: ClientError, uri: str, endpoint: str | None) -> Exception:
    code = error_code(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in MISSING_OBJECT:
        return missing_object(uri)
    if code in MISSING_BUCKET:
        return missing_bucket(uri, endpoint)
    if code in REFUSED_KEY:
        return StorageError(
            f"{public_address(endpoint)} does not accept the credentials for {uri}",
            found=code,
            remedy=f"{CREDENTIALS}.",
        )
    if code in REFUSED:
        return StorageError(
            f"{public_address(endpoint)} refuses access to {uri}",
            found=code,
            remedy=f"Check the credentials and their permissions for the bucket. {CREDENTIALS}.",
        )
    if code in PASSING or status >= 500 or status == 429:
        return TransientStorageError(
            f"{public_address(endpoint)} failed temporarily for {uri}", found=code, remedy="Retry later."
        )
    return StorageError(f"{public_address(endpoint)} refused a request for {uri}", found=f"{code} ({status})")
