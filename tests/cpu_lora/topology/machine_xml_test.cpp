#include "cpu_lora/topology/machine_xml.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using testing::HasSubstr;

std::string nested(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += "<object type=\"Group\">";
  for (int i = 0; i < depth; ++i) text += "</object>";
  return text;
}

std::string refusal(std::string_view text) {
  return safe_machine_xml(text).status().message();
}

TEST(SafeMachineXml, LeavesWhatHwlocWritesAsItIs) {
  const std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
      "<topology version=\"2.0\">\n  <object type=\"Machine\"><info name=\"a\" "
      "value=\"b\"/></object>"
      "\n<distances2><indexes length=\"4\">0 1 </indexes></distances2></topology>\n";
  EXPECT_EQ(*safe_machine_xml(text), text);
}

TEST(SafeMachineXml, TakesManyElementsBesideEachOtherAndFewInEachOther) {
  std::string wide = "<topology>";
  for (int i = 0; i < 10000; ++i) wide += "<object><info/></object>";
  EXPECT_TRUE(safe_machine_xml(wide + "</topology>").ok());
  EXPECT_TRUE(safe_machine_xml(nested(256)).ok());
  EXPECT_THAT(refusal(nested(257)), HasSubstr("nested more than 256 deep"));
}

TEST(SafeMachineXml, CountsElementsThatPretendToEnd) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "<object name=\"a/>b\">";
  EXPECT_THAT(refusal(text), HasSubstr("nested"));
  text.clear();
  for (int i = 0; i < 300; ++i) text += "<object><!-- </object> -->";
  EXPECT_THAT(refusal(text), HasSubstr("nested"));
}

TEST(SafeMachineXml, GivesAllParsersTheSameElements) {
  EXPECT_EQ(*safe_machine_xml("<a b=\"x>y\" c='>'/><!-- <d> --><e/>"),
            "<a b=\"x&gt;y\" c='&gt;'/><e/>");
}

TEST(SafeMachineXml, RefusesWhatHwlocNeverWrites) {
  EXPECT_THAT(refusal("<!DOCTYPE a [<!ENTITY b \"c\">]><a/>"), HasSubstr("declarations"));
  EXPECT_THAT(refusal("<a><![CDATA[<b>]]></a>"), HasSubstr("declarations"));
  EXPECT_THAT(refusal("<?xml version='1.0' encoding='UTF-7'?><a/>"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(std::string_view("<\0a\0>\0", 6)), HasSubstr("not UTF-8"));
  for (const char* text : {"<a", "<a b=\">", "<!-- a", "<a b=\"<c>\"/>"}) {
    EXPECT_FALSE(safe_machine_xml(text).ok()) << text;
  }
}

TEST(ReadMachineXml, NamesTheFile) {
  EXPECT_THAT(read_machine_xml("data/machines/none.xml").status().message(),
              HasSubstr("data/machines/none.xml"));
  EXPECT_TRUE(read_machine_xml("data/machines/two_sockets.xml").ok());
}

}  // namespace
}  // namespace tandem
