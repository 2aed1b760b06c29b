#include "base/http/client/response_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <limits>

namespace tandem {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Failure = boost::system::error_code;

constexpr int kOk = 200;  // lower statuses are interim

// Appends the body's bytes to the string that the reader was given for this step.
struct AppendedBody {
  using value_type = std::string*;

  class reader {
   public:
    template <bool IsRequest, typename Fields>
    reader(http::header<IsRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, Failure& failure) { failure = {}; }
    template <typename Buffers>
    std::size_t put(const Buffers& buffers, Failure& failure) {
      failure = {};
      std::size_t bytes = 0;
      for (auto at = asio::buffer_sequence_begin(buffers); at != asio::buffer_sequence_end(buffers);
           ++at) {
        const asio::const_buffer piece(*at);
        body_->append(static_cast<const char*>(piece.data()), piece.size());
        bytes += piece.size();
      }
      return bytes;
    }
    void finish(Failure& failure) { failure = {}; }

   private:
    value_type& body_;
  };
};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

}  // namespace

struct ResponseReader::Parser {
  http::response_parser<AppendedBody> beast;
};

std::string_view CallHead::header(std::string_view lower_case_name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const auto& header) {
    return header.first == lower_case_name;
  });
  return found == headers.end() ? std::string_view{} : std::string_view{found->second};
}

ResponseReader::ResponseReader() {
  begin();
}
ResponseReader::~ResponseReader() = default;

void ResponseReader::begin() {
  parser_ = std::make_unique<Parser>();
  parser_->beast.eager(true);
  parser_->beast.header_limit(kMaxHeadBytes);
  parser_->beast.body_limit(std::numeric_limits<std::uint64_t>::max());
}

ResponseReader::State ResponseReader::take(std::string_view bytes, std::string& body) {
  if (state_ == State::refused) return state_;
  if (state_ == State::complete) {
    surplus_ = surplus_ || !bytes.empty();
    return state_;
  }
  std::string joined;
  if (!left_.empty()) {
    joined = std::move(left_);
    left_.clear();
    joined += bytes;
    bytes = joined;
  }
  feed(bytes, body);
  if (state_ == State::complete) {
    surplus_ = !bytes.empty();
  } else if (state_ != State::refused) {
    left_ = bytes;
  }
  return state_;
}

// Parses bytes and removes them from the front.
void ResponseReader::feed(std::string_view& bytes, std::string& body) {
  while (!bytes.empty() && state_ != State::complete) {
    parser_->beast.get().body() = &body;
    Failure failure;
    const std::size_t used =
        parser_->beast.put(asio::const_buffer(bytes.data(), bytes.size()), failure);
    bytes.remove_prefix(used);
    const bool starved = failure == http::error::need_more;
    if (failure && !starved) {
      state_ = State::refused;
      refusal_ = failure.message();
      return;
    }
    if (state_ == State::head && parser_->beast.is_header_done()) take_head();
    if (state_ == State::refused) return;
    if (state_ == State::body && parser_->beast.is_done()) state_ = State::complete;
    if (starved || (used == 0 && state_ != State::complete)) return;
  }
}

void ResponseReader::take_head() {
  const auto& message = parser_->beast.get();
  const int status = static_cast<int>(message.result_int());
  if (status < kOk) {
    if (++interim_ > kMaxInterim) {
      state_ = State::refused;
      refusal_ = "too many interim responses";
      return;
    }
    return begin();
  }
  head_.status = status;
  for (const auto& field : message) {
    head_.headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}),
                               std::string(field.value().data(), field.value().size()));
  }
  state_ = State::body;
}

ResponseReader::State ResponseReader::end() {
  if (state_ != State::body) {
    if (state_ == State::head) {
      state_ = State::refused;
      refusal_ = "it ended before the response";
    }
    return state_;
  }
  Failure failure;
  parser_->beast.put_eof(failure);
  state_ = failure ? State::refused : State::complete;
  if (failure) refusal_ = failure.message();
  return state_;
}

bool ResponseReader::reusable() const {
  return state_ == State::complete && !surplus_ && parser_->beast.keep_alive();
}

}  // namespace tandem
