/* certificates.h - makes the workload trust the certificate authority (CA) of the egress proxy,
 * which decrypts traffic in its transparent mode. For start-up: BLOCKS. */
#pragma once

#include <stdbool.h>

#define CERTIFICATES_CA     "/opt/opensandbox/mitmproxy-ca-cert.pem"
#define CERTIFICATES_MERGED "/opt/opensandbox/merged-ca-certificates.pem"

/* True if $OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT is set to 1, true, yes or on. */
bool certificates_wanted(void);
/* Which certificates were installed. */
enum certificates_kind {
    CERTIFICATES_NONE,
    CERTIFICATES_ALONE, /* the CA's certificate only */
    CERTIFICATES_BUNDLE /* also a bundle of it and all other CAs */
};

/* If the runtime gives the CA's certificate in $OPENSANDBOX_EGRESS_CA_CERTIFICATE: writes it, and a
 * merged bundle with the system's, and announces them. Removes the variable. */
void certificates_place(void);

/* Waits up to five minutes for the CA's certificate, then installs it in the system's store, a
 * merged bundle and the NSS database of browsers, as far as the image has them. A failed step is
 * logged as a warning. */
enum certificates_kind certificates_install(void);

/* Sets NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE and SSL_CERT_FILE in our environment. With
 * CERTIFICATES_NONE the environment stays unchanged: the image's own settings remain valid. */
void certificates_announce(enum certificates_kind kind);

/* Pass the result through a pipe from the process that installs to the one that serves.
 * certificates_hear() calls certificates_announce() for the value it reads. It returns true once
 * nothing more will come, and does not block. */
void certificates_tell(int fd, enum certificates_kind kind);
bool certificates_hear(int fd);
