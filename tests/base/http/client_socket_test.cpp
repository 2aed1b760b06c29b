#include "base/http/sockets/client_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

namespace tandem {
namespace {

// Both ends of a connection: the client's and the server's.
class ClientSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listening, generic, size), 0);
    ASSERT_EQ(::listen(listening, 1), 0);
    ASSERT_EQ(::getsockname(listening, generic, &size), 0);
    client_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(client_, generic, size), 0);
    accepted_ = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ASSERT_GE(accepted_, 0);
    ::close(listening);
  }
  ~ClientSocketTest() override {
    if (client_ >= 0) ::close(client_);
  }

  // True if the server's end becomes readable within a second.
  bool something_comes() const {
    pollfd look = {accepted_, POLLIN | POLLRDHUP, 0};
    return ::poll(&look, 1, 1000) == 1;
  }

  int client_ = -1;
  int accepted_ = -1;
  boost::asio::io_context io_;
};

TEST_F(ClientSocketTest, IsNotBrokenByAClientThatHasSentAllAndWaits) {
  ClientSocket server(boost::asio::make_strand(io_), Descriptor(accepted_), false);
  EXPECT_FALSE(server.is_broken());
  ASSERT_EQ(::shutdown(client_, SHUT_WR), 0);
  ASSERT_TRUE(something_comes());
  EXPECT_FALSE(server.is_broken());
}

TEST_F(ClientSocketTest, IsBrokenByAReset) {
  ClientSocket server(boost::asio::make_strand(io_), Descriptor(accepted_), false);
  const linger at_once = {1, 0};
  ASSERT_EQ(::setsockopt(client_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
  ::close(client_);
  client_ = -1;
  ASSERT_TRUE(something_comes());
  EXPECT_TRUE(server.is_broken());
}

}  // namespace
}  // namespace tandem
