/* certificates.h - makes the workload trust a certificate authority that looks into its traffic
 * (the egress proxy's, in its transparent mode). For start-up: BLOCKS. */
#pragma once

#include <stdbool.h>

#define CERTIFICATES_CA     "/opt/opensandbox/mitmproxy-ca-cert.pem"
#define CERTIFICATES_MERGED "/opt/opensandbox/merged-ca-certificates.pem"

/* Whether $OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT asks for it. */
bool certificates_wanted(void);
/* Puts into our environment where programs will find it. Nothing need be there yet. */
void certificates_announce(void);
/* Waits for the authority's certificate, up to five minutes, and installs it wherever this image
 * keeps them: the system's store, a merged bundle, the browser's database. All of it as well as can
 * be; what fails is a warning. Our environment then names what there is: the bundle, or else the
 * certificate alone, or nothing. */
void certificates_install(void);
