#include "base/http/service/rest_service.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/http/rest/error_envelope.h"

namespace tandem {
namespace {

HttpRequest request_of(std::string method, std::string path) {
  HttpRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  return request;
}

// Answers with the route's path; `closed` makes the server refuse for a reason of its own.
class Service final : public RestService {
 public:
  Service()
      : RestService({"key", false, {"https://ours"}, "no such path", 3},
                    {{"GET", "/health", answer("/health"), true, false, true},
                     {"GET", "/things", answer("/things")},
                     {"POST", "/things", answer("/things"), false, true},
                     {"GET", "/things/{id}", answer("one")},
                     {"GET", "/files/", answer("file")},
                     {"GET", "/broken", [](const HttpRequest&) -> HttpResponse {
                        throw std::runtime_error("broken");
                      }}}) {}

  bool closed = false;
  std::vector<std::string> counted;

 private:
  std::function<HttpResponse(const HttpRequest&)> answer(const char* word) {
    return
        [this, word](const HttpRequest&) { return run([&] { return status_answer(200, word); }); };
  }
  std::optional<HttpResponse> check(const RestRoute&, const HttpRequest&) override {
    if (!closed) return std::nullopt;
    return status_answer(503, "closed");
  }
  HttpResponse not_serving() override { return status_answer(503, "draining"); }
  HttpResponse failed(const HttpRequest&, const char* why) override {
    return status_answer(500, why);
  }
  void refused(const char* path, const std::string& method, int status) override {
    counted.push_back(method + " " + path + " " + std::to_string(status));
  }
};

TEST(RestService, RefusesForTheFirstReasonThatHolds) {
  Service service;
  service.closed = true;
  HttpRequest request = request_of("OPTIONS", "/things/a/b");
  request.has_body = true;
  request.headers = {{"origin", "https://theirs"}, {"access-control-request-method", "GET"}};
  EXPECT_EQ(service.screen(request)->status, 403);
  request.headers.erase("access-control-request-method");
  request.path = "/nothing";
  EXPECT_EQ(service.screen(request)->status, 401);
  request.headers["authorization"] = "Bearer key";
  EXPECT_EQ(service.screen(request)->status, 404);
  request.path = "/things";
  const HttpResponse other_method = *service.screen(request);
  EXPECT_EQ(other_method.status, 405);
  EXPECT_EQ(other_method.headers.back(),
            std::pair(std::string("Allow"), std::string("GET, HEAD, POST")));
  request.method = "POST";
  EXPECT_EQ(service.screen(request)->status, 503);
  service.closed = false;
  EXPECT_EQ(service.screen(request)->status, 415);
  request.headers["content-type"] = "application/json";
  EXPECT_FALSE(service.screen(request));
  EXPECT_EQ(service.counted,
            (std::vector<std::string>{"OPTIONS /things/{id} 403", "OPTIONS other 401",
                                      "OPTIONS other 404", "OPTIONS /things 405",
                                      "POST /things 503", "POST /things 415"}));
}

TEST(RestService, FindsTheRouteOfAPath) {
  Service service;
  const auto body = [&](std::string method, std::string path) {
    return service.handle(request_of(std::move(method), std::move(path))).body;
  };
  EXPECT_EQ(body("HEAD", "/things"), R"({"status":"/things"})");
  EXPECT_EQ(body("GET", "/things/a/b"), R"({"status":"one"})");
  EXPECT_EQ(body("GET", "/files/x"), R"({"status":"file"})");
  EXPECT_EQ(body("GET", "/broken"), R"({"status":"broken"})");
  EXPECT_FALSE(service.screen(request_of("GET", "/health"))) << "probes have no key";
  EXPECT_TRUE(service.at_once(request_of("GET", "/health")));
  EXPECT_TRUE(service.slow(request_of("POST", "/things")));
  HttpRequest keyed = request_of("GET", "/files/");
  keyed.headers["authorization"] = "Bearer key";
  EXPECT_EQ(service.screen(keyed)->status, 404);
}

TEST(RestService, DrainsUntilTheLastAnswerHasBeenSent) {
  Service service;
  const auto nothing = [] {};
  EXPECT_TRUE(service.end_within(Duration::zero(), nothing));
  HttpResponse running = service.handle(request_of("GET", "/things"));
  service.drain();
  EXPECT_EQ(service.handle(request_of("GET", "/things")).status, 503);
  bool cut = false;
  EXPECT_FALSE(service.end_within(Duration::zero(), [&] {
    cut = true;
    running = {};
  }));
  EXPECT_TRUE(cut);
  EXPECT_TRUE(service.end_within(std::chrono::hours(1), nothing));
}

TEST(RestService, WaitsForNobodyWhenAbandoned) {
  Service service;
  const HttpResponse running = service.handle(request_of("GET", "/things"));
  auto ended = std::async(std::launch::async,
                          [&] { return service.end_within(std::chrono::hours(1), [] {}); });
  service.abandon();
  EXPECT_FALSE(ended.get());
}

TEST(RestService, SaysWhatHttpItselfRefuses) {
  Service service;
  const HttpResponse busy = service.refuse(503, "too many connections");
  EXPECT_EQ(busy.headers.back(), std::pair(std::string("Retry-After"), std::string("3")));
  EXPECT_NE(busy.body.find("Too many connections"), std::string::npos);
  EXPECT_NE(service.refuse(400, "bad").body.find("bad_request"), std::string::npos);
  EXPECT_EQ(service.counted, (std::vector<std::string>{"other other 503", "other other 400"}));
}

}  // namespace
}  // namespace tandem
