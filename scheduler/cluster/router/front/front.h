// The router's REST calls, without sockets.
#pragma once

#include <vector>

#include "base/dashboard/dashboard_feed.h"
#include "base/http/http_message.h"
#include "base/http/service/rest_service.h"
#include "scheduler/cluster/router/router.h"

namespace tandem {

// Thread-safe.
class Front final : public RestService {
 public:
  // `router` must outlive this object.
  Front(Router& router, RestOptions options);

  void finish(const HttpRequest& request, HttpResponse& response) override;

 private:
  std::vector<RestRoute> bind_routes();
  HttpResponse watch(const HttpRequest& request);  // a dashboard

  HttpResponse not_serving() override;

  Router& router_;
  DashboardFeed dashboard_;
};

}  // namespace tandem
