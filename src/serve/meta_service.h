#ifndef LK_SERVE_META_SERVICE_H
#define LK_SERVE_META_SERVICE_H
/*
 * meta_service.h - the metadata authority over Flight: DoAction (the table actions and catalog_snapshot),
 * ListActions, DoPut of lake.file.Append. Every other Flight method is UNIMPLEMENTED.
 *
 * Who may do what, for a target namespace: an admin everything; a user what is granted to it, without delegation
 * headers; a query_service or metadata_peer what `x-lake-delegated-namespace` names, for the tenant that
 * `x-lake-delegated-tenant` names. All refusals are one LK_E_DENIED. catalog_snapshot is for the service roles and
 * admins, without delegation.
 *
 * A Query that has compared the payload digest with the client's bytes says so (`x-lake-payload-verified: 1`),
 * because the bytes it sends on are encoded anew; only service roles and admins are believed.
 *
 * Threads: shared; handlers run on the server's workers.
 */
#include "base/budget.h"
#include "base/config.h"
#include "catalog/authority.h"
#include "net/grpc_server.h"

#define LK_HEADER_DELEGATED_NAMESPACE "x-lake-delegated-namespace"
#define LK_HEADER_DELEGATED_TENANT    "x-lake-delegated-tenant"
#define LK_HEADER_PAYLOAD_VERIFIED    "x-lake-payload-verified"

typedef struct lk_meta_service lk_meta_service;

enum { LK_META_METHODS = 3 };

/* authority and budget (append streams in memory) are borrowed and outlive the service. */
lk_meta_service *lk_meta_service_open(lk_authority *authority, lk_budget *budget, const lk_config *config);
void             lk_meta_service_close(lk_meta_service *service); /* after the server; accepts NULL */

/* The service's methods for a server's table; valid while the service is. */
void lk_meta_service_methods(lk_meta_service *service, lk_grpc_method out[LK_META_METHODS]);

#endif
