#include "engine/server/messages/conversation_rendering.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json/json_equals.h"
#include "base/json/json_release.h"
#include "engine/server/messages/ordered_json.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// The repairs of a conversation. Each returns whether it changed anything.

bool join_parts(Json& messages) {
  bool found = false;
  for (Json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    std::string text;
    for (const Json& part : *content) {
      if (&part != &content->front()) text += '\n';
      text += part.at("text").get_ref<const std::string&>();
    }
    *content = std::move(text);
    found = true;
  }
  return found;
}

bool fill_contents(Json& messages) {
  bool found = false;
  for (Json& message : messages) {
    if (message.contains("content")) continue;
    append_member(message, "content", "");
    found = true;
  }
  return found;
}

bool empty_arguments(Json& messages) {
  bool found = false;
  for (Json& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (Json& call : *calls) {
      Json& arguments = call.at("function")["arguments"];
      if (arguments.is_object()) continue;
      arguments = Json::object();
      found = true;
    }
  }
  return found;
}

bool name_developers_system(Json& messages) {
  bool found = false;
  for (Json& message : messages) {
    if (!is_text(message.at("role"), "developer")) continue;
    message["role"] = "system";
    found = true;
  }
  return found;
}

bool has_parts(const Json& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const Json& message) {
    const auto content = message.find("content");
    return content != message.end() && content->is_array();
  });
}

// Returns a message's texts that are not blank: its content, or the texts of its parts.
std::vector<std::string*> texts_of(Json& message) {
  std::vector<std::string*> texts;
  const auto add = [&](Json& text) {
    auto& value = text.get_ref<std::string&>();
    if (value.find_first_not_of(" \t\r\n") != std::string::npos) texts.push_back(&value);
  };
  const auto content = message.find("content");
  if (content == message.end()) return texts;
  if (content->is_string()) add(*content);
  if (!content->is_array()) return texts;
  for (Json& part : *content) {
    const auto text = part.find("text");
    if (text != part.end() && text->is_string()) add(*text);
  }
  return texts;
}

// A mark is made of digits, because no template filter changes them; the middle is the message's
// number.
constexpr std::string_view kMarkBegins = "70329581460";
constexpr std::string_view kMarkEnds = "06418592307";
constexpr int kNumberDigits = 9;

std::string mark_of(std::size_t message) {
  return fmt::format("{}{:0{}}{}", kMarkBegins, message, kNumberDigits, kMarkEnds);
}

std::set<std::size_t> marks_in(std::string_view text) {
  std::set<std::size_t> found;
  for (std::size_t at = text.find(kMarkBegins); at != std::string_view::npos;
       at = text.find(kMarkBegins, at + 1)) {
    const std::string_view digits =
        text.substr(at + kMarkBegins.size(), std::size_t{kNumberDigits});
    std::size_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    found.insert(number);
  }
  return found;
}

// Every template prints messages of these roles, apart from deliberate omissions: reasoning of
// earlier turns, words beside tool calls.
bool is_everybodys_role(const Json& role) {
  return is_text(role, "user") || is_text(role, "assistant");
}

class ConversationRendering {
 public:
  ConversationRendering(const ChatTemplate& chat, const ChatInput& input,
                        const RenderLimits& limits)
      : chat_(chat),
        given_(input),
        limits_(limits),
        clock_(limits.clock == nullptr ? steady_ : *limits.clock),
        deadline_(clock_.now() + limits.timeout) {}

  Result<std::string> run() {
    if (!chat_.reads_content_parts() && has_parts(given_.messages)) join_parts(changed().messages);
    Result<std::string> text = render(*now_);
    if (!text && goes_on_from_nothing()) return text;
    for (const auto repair : {fill_contents, empty_arguments, name_developers_system}) {
      if (text || text.status().code() != StatusCode::invalid_argument) break;
      if (repair(changed().messages)) text = render(*now_);
    }
    if (!text) return text;
    std::vector<std::size_t> lost = lost_in(*text);
    const auto is_developers = [&](std::size_t i) {
      return is_text(now_->messages[i].at("role"), "developer");
    };
    if (std::any_of(lost.begin(), lost.end(), is_developers)) {
      name_developers_system(changed().messages);
      text = render(*now_);
      if (!text) return text;
      lost = lost_in(*text);
    }
    if (!lost.empty()) return refuse(lost.front());
    return text;
  }

 private:
  // A final message without content cannot be continued, and no repair changes that.
  bool goes_on_from_nothing() const {
    return given_.continue_final_message && !given_.messages.empty() &&
           !given_.messages.back().contains("content");
  }

  // Switches the rendering to a copy of the input, which may be changed.
  ChatInput& changed() {
    if (now_ != &copy_) copy_ = given_;
    now_ = &copy_;
    return copy_;
  }

  // All renderings together share one time limit.
  Result<std::string> render(const ChatInput& input) const {
    RenderLimits limits = limits_;
    limits.timeout = std::max(deadline_ - clock_.now(), Duration::zero());
    return chat_.render(input, limits);
  }

  // Returns the messages whose content is not in the prompt. Long texts are searched for directly,
  // in the order of the messages. If that fails, and for short texts, which may occur by chance,
  // the template is rendered again with marks around them.
  std::vector<std::size_t> lost_in(const std::string& text) const {
    constexpr std::size_t kLongBytes = 32;
    ChatInput marked;
    const EmptiedFromLeaves messages_at_end(marked.messages);
    const EmptiedFromLeaves variables_at_end(marked.variables);
    std::vector<std::size_t> suspects;
    std::size_t from = 0;
    for (std::size_t i = 0; i < now_->messages.size(); ++i) {
      if (is_everybodys_role(now_->messages[i].at("role"))) continue;
      const auto content = now_->messages[i].find("content");
      if (content == now_->messages[i].end()) continue;
      if (suspects.empty() && content->is_string()) {
        const auto& words = content->get_ref<const std::string&>();
        const std::string_view rest = std::string_view(text).substr(from);
        // memmem is linear (two-way) in our C library; the standard library's search is not.
        const void* const found = words.size() < kLongBytes ? nullptr
                                                            : memmem(rest.data(), rest.size(),
                                                                     words.data(), words.size());
        if (found != nullptr) {
          from += static_cast<std::size_t>(static_cast<const char*>(found) - rest.data()) +
                  words.size();
          continue;
        }
      }
      if (marked.messages.empty()) marked = *now_;
      const std::vector<std::string*> texts = texts_of(marked.messages[i]);
      if (texts.empty()) continue;
      suspects.push_back(i);
      texts.front()->insert(0, mark_of(i));
      texts.back()->append(mark_of(i));
    }
    if (suspects.empty()) return {};
    const Result<std::string> again = render(marked);
    if (!again) return {};  // the template inspects its input and rejects the marks: no result
    const std::set<std::size_t> there = marks_in(*again);
    std::erase_if(suspects, [&](std::size_t i) { return there.contains(i); });
    return suspects;
  }

  Status refuse(std::size_t message) const {
    constexpr std::size_t kMaxRoleBytes = 64;
    const auto& role = given_.messages[message].at("role").get_ref<const std::string&>();
    return invalid(
        "it prints nothing of messages[{}], whose role is {}; give the message a role that the "
        "template knows, as system, user, assistant or tool",
        message, role.size() > kMaxRoleBytes ? "a long text" : Json(role).dump());
  }

  const ChatTemplate& chat_;
  const ChatInput& given_;
  const RenderLimits limits_;
  const SteadyClock steady_;
  const Clock& clock_;
  const TimePoint deadline_;
  ChatInput copy_;
  const EmptiedFromLeaves<Json> messages_at_end_{copy_.messages};
  const EmptiedFromLeaves<Json> variables_at_end_{copy_.variables};
  const ChatInput* now_ = &given_;
};

}  // namespace

Result<std::string> render_conversation(const ChatTemplate& chat, const ChatInput& input,
                                        const RenderLimits& limits) {
  return ConversationRendering(chat, input, limits).run();
}

}  // namespace tandem
