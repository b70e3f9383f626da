"""gRPC's credentials from a crew's TLS files. Both sides show a certificate of the crew's authority."""

import grpc

from quarterdeck.security.tls import TlsFiles


def server_credentials(tls: TlsFiles | None) -> grpc.ServerCredentials | None:
    if tls is None:
        return None
    return grpc.ssl_server_credentials(
        [(tls.key_pem, tls.certificate_pem)], root_certificates=tls.authority_pem, require_client_auth=True
    )


def channel_credentials(tls: TlsFiles | None) -> grpc.ChannelCredentials | None:
    if tls is None:
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=tls.authority_pem, private_key=tls.key_pem, certificate_chain=tls.certificate_pem
    )
