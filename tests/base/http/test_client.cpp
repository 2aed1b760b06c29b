#include "tests/base/http/test_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace tandem {

std::string ClientResponse::error(const char* field) const {
  const auto parsed = nlohmann::json::parse(body, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("error")) return "(no envelope) " + body;
  const auto& value = parsed["error"][field];
  return value.is_string() ? value.get<std::string>() : "";
}

TestClient::TestClient(int port, int receive_buffer_bytes) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  // A server that never answers makes the test fail instead of hang.
  const timeval patience{30, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ADD_FAILURE() << "connect: errno " << errno;
    close();
  }
}

TestClient::~TestClient() {
  close();
}

void TestClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void TestClient::end_sending() {
  ::shutdown(fd_, SHUT_WR);
}

void TestClient::reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close();
}

bool TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool TestClient::fill() {
  std::array<char, 65536> bytes{};
  const auto count = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  buffer_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

std::string TestClient::line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return {};
  }
  std::string text = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return text;
}

std::string TestClient::chunk() {
  const std::string size_text = line();
  const std::size_t size = std::strtoul(size_text.c_str(), nullptr, 16);
  while (buffer_.size() < size + 2) {
    if (!fill()) return {};
  }
  std::string data = buffer_.substr(0, size);
  buffer_.erase(0, size + 2);
  return data;
}

ClientResponse TestClient::receive_head() {
  ClientResponse response;
  std::string text = line();
  for (; text.starts_with("HTTP/1.1 100"); text = line()) {
    ++interim_;
    line();
  }
  if (text.size() < 12) return response;
  response.status = std::atoi(text.c_str() + 9);
  while (!(text = line()).empty()) {
    const std::size_t colon = text.find(": ");
    std::string name = text.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    response.headers[name] = text.substr(colon + 2);
  }
  return response;
}

std::string TestClient::interim_line() {
  std::string first = line();
  line();
  return first;
}

std::string TestClient::receive_chunks() {
  std::string all;
  for (std::string data = chunk(); !data.empty(); data = chunk()) all += data;
  return all;
}

ClientResponse TestClient::receive() {
  ClientResponse response = receive_head();
  if (response.status == 0) return response;
  if (response.headers.contains("transfer-encoding")) {
    for (std::string data = chunk(); !data.empty(); data = chunk()) response.body += data;
    response.complete = true;
  } else if (response.headers.contains("content-length")) {
    const std::size_t length =
        std::strtoul(response.headers["content-length"].c_str(), nullptr, 10);
    while (buffer_.size() < length && fill()) {
    }
    response.body = buffer_.substr(0, length);
    response.complete = response.body.size() == length;
    buffer_.erase(0, length);
  } else {
    while (fill()) {
    }
    response.body = std::move(buffer_);
    buffer_.clear();
    response.complete = true;
  }
  return response;
}

std::string TestClient::next_event() {
  std::size_t end = 0;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    const std::string data = chunk();
    if (data.empty()) return {};
    events_ += data;
  }
  const std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  if (event == ":") return next_event();
  EXPECT_EQ(event.substr(0, 6), "data: ");
  return event.substr(6);
}

std::string TestClient::rest() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

bool TestClient::at_end() {
  return buffer_.empty() && !fill();
}

std::string http_request(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view more_headers) {
  std::string text =
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}", method, path, more_headers);
  if (!body.empty()) {
    text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  text += "\r\n";
  text += body;
  return text;
}

std::vector<std::string> events_of(std::string_view body) {
  std::vector<std::string> events;
  while (!body.empty()) {
    const std::size_t end = body.find("\n\n");
    EXPECT_NE(end, std::string_view::npos) << "an event without an end";
    EXPECT_EQ(body.substr(0, 6), "data: ");
    if (end == std::string_view::npos) break;
    events.emplace_back(body.substr(6, end - 6));
    body.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace tandem
