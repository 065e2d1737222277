/* certificates.h - makes the workload trust a certificate authority that looks into its traffic
 * (the egress proxy's, in its transparent mode). For start-up: BLOCKS. */
#pragma once

#include <stdbool.h>

#define CERTIFICATES_CA     "/opt/opensandbox/mitmproxy-ca-cert.pem"
#define CERTIFICATES_MERGED "/opt/opensandbox/merged-ca-certificates.pem"

/* Whether $OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT asks for it. */
bool certificates_wanted(void);
/* What there is for programs to trust. */
enum certificates_kind {
    CERTIFICATES_NONE,
    CERTIFICATES_ALONE, /* the authority's certificate */
    CERTIFICATES_BUNDLE /* and one with all the others, too */
};

/* Waits for the authority's certificate, up to five minutes, and installs it wherever this image
 * keeps them: the system's store, a merged bundle, the browser's database. All of it as well as can
 * be; what fails is a warning. */
enum certificates_kind certificates_install(void);

/* Puts into our environment where programs find what there is now. With CERTIFICATES_NONE it stays
 * as it is: what the image brings along is true still. */
void certificates_announce(enum certificates_kind kind);

/* From the process that installs to the one that serves, through a pipe: certificates_hear()
 * announces what came, and is true once nothing more will. It does not block. */
void certificates_tell(int fd, enum certificates_kind kind);
bool certificates_hear(int fd);
