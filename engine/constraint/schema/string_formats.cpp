#include "engine/constraint/schema/string_formats.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/check.h"
#include "engine/constraint/schema/pattern.h"

namespace tandem {
namespace {

using Patterns = std::map<std::string, std::string>;

Patterns patterns() {
  // Excludes leap days, which do not exist in every year, and leap seconds.
  const std::string date =
      "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|"
      "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?"
      "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  const std::string number = "[0-9]{1,4}";
  const std::string hours = "T(" + number + "H(" + number + "M(" + number + "S)?)?|" + number +
                            "M(" + number + "S)?|" + number + "S)";
  const std::string days = "(" + number + "Y(" + number + "M(" + number + "D)?)?|" + number + "M(" +
                           number + "D)?|" + number + "D)";
  // No two adjacent hyphens, because "xn--" has a special meaning.
  const std::string label = "[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20}){0,2}";
  const std::string word = "[A-Za-z0-9_%+-]{1,20}";
  const std::string email = word + "(\\." + word + "){0,2}@" + label + "(\\." + label + "){1,2}";
  const std::string hostname = label + "(\\." + label + "){0,2}";
  const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string group = "[0-9A-Fa-f]{1,4}";
  std::string ipv6 =
      "(" + group + ":){7}" + group + "|(" + group + ":){1,7}:|:(:" + group + "){1,7}|::";
  for (int i = 1; i <= 6; ++i) {
    ipv6 += fmt::format("|({0}:){{{1}}}(:{0}){{1,{2}}}", group, i, 7 - i);
  }
  const std::string character = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const std::string path = "(/" + character + "*)*";
  const std::string behind = "(\\?(" + character + "|[/?])*)?(#(" + character + "|[/?])*)?";
  const std::string uri = "([a-z][a-z0-9+.-]{0,15}://" + label + "(\\." + label +
                          "){0,3}(:[1-9][0-9]{0,3})?" + path + behind +
                          "|(mailto|tel|urn):" + character + "+)";
  const std::string pointer = "(/([^~/]|~[01])*)*";
  return {{"date", date},
          {"time", time},
          {"date-time", date + "T" + time},
          {"duration", "P(" + number + "W|" + days + "(" + hours + ")?|" + hours + ")"},
          {"email", email},
          {"idn-email", email},
          {"hostname", hostname},
          {"idn-hostname", hostname},
          {"ipv4", octet + "(\\." + octet + "){3}"},
          {"ipv6", ipv6},
          {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
          {"uri", uri},
          {"iri", uri},
          {"uri-template", uri},
          {"uri-reference", uri + "|" + path + behind},
          {"iri-reference", uri + "|" + path + behind},
          {"json-pointer", pointer},
          {"relative-json-pointer", "(0|[1-9][0-9]{0,8})(#|" + pointer + ")"}};
}

const std::map<std::string, TextExpression>& formats() {
  static const std::map<std::string, TextExpression> known = [] {
    std::map<std::string, TextExpression> result;
    for (const auto& [name, pattern] : patterns()) {
      result[name] = texts_matched(name, parse_pattern(name, pattern).value()).value();
    }
    return result;
  }();
  return known;
}

}  // namespace

bool is_known_format(const std::string& name) {
  return formats().contains(name);
}

const TextExpression& texts_of_format(const std::string& name) {
  const auto at = formats().find(name);
  TANDEM_CHECK(at != formats().end(), "format {}", name);
  return at->second;
}

}  // namespace tandem
