#include "dist/train/config/json_document.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::JsonDocument;

namespace {

std::string refusal(const std::string& json) {
  return message_of<ConfigError>([&] { JsonDocument::parse(json, "run.json"); });
}

}  // namespace

TEST_CASE("configuration in JSON: comments, trailing commas, scientific notation for counts") {
  const JsonDocument document = JsonDocument::parse(R"(// a run
{
  "count": 2e8, /* elements */
  "list": [1, 2,],
  "block": {"text": "a \"b\"", "flag": false,},
}
)",
                                                    "run.json");
  const auto members = document.root().members();
  REQUIRE(members.size() == 3);
  CHECK(members[0].first == "count");  // in the order of the text
  CHECK(members[0].second.as_integer() == 200'000'000);
  CHECK(members[1].second.elements()[1].as_integer() == 2);
  CHECK(members[1].second.elements()[1].path() == "list[1]");
  const auto block = members[2].second.members();
  CHECK(block[0].second.as_text() == "a \"b\"");
  CHECK(!block[1].second.as_bool());
  CHECK(document.root().find("block")->find("text")->as_text() == "a \"b\"");
  CHECK_FALSE(document.root().find("blocks").has_value());
  CHECK_FALSE(document.root().find("count")->find("text").has_value());
  CHECK(block[1].second.place() == "run.json:5: block.flag");
}

TEST_CASE("configuration in JSON: a value of another kind names file, line, path, expected and given") {
  const JsonDocument document =
      JsonDocument::parse("{\n\"a\": \"x\",\n\"b\": {\"c\": 1.5}, \"d\": [1], \"e\": null}", "run.json");
  const auto members = document.root().members();
  CHECK(message_of<ConfigError>([&] { members[0].second.as_integer(); }) ==
        "run.json:2: a: expected a whole number, got \"x\"");
  CHECK(message_of<ConfigError>([&] { members[0].second.as_bool(); }) ==
        "run.json:2: a: expected true or false, got \"x\"");
  CHECK(message_of<ConfigError>([&] { members[1].second.members()[0].second.as_integer(); }) ==
        "run.json:3: b.c: expected a whole number of at most 2^53, got 1.5");
  CHECK(message_of<ConfigError>([&] { members[1].second.as_number(); }) ==
        "run.json:3: b: expected a number, got {\"c\":1.5}");
  CHECK(message_of<ConfigError>([&] { members[2].second.members(); }) ==
        "run.json:3: d: expected a table, {...}, got [1]");
  CHECK(message_of<ConfigError>([&] { members[3].second.as_text(); }) ==
        "run.json:3: e: expected a text, got null");
  CHECK(members[3].second.kind() == "null");
}

TEST_CASE("configuration in JSON: what is no JSON is an error with its line") {
  CHECK(contains(refusal("{\n\"a\": 1\n\"b\": 2}"), "run.json: not a configuration in JSON: line 3: "));
  CHECK(contains(refusal("{\"a\": 1,\n \"a\": 2}"), "line 2: the key 'a' is there twice"));
  CHECK(contains(refusal("{\"a\": NaN}"), "line 1"));
  CHECK(contains(refusal("{\"a\": Infinity}"), "line 1"));
  CHECK(contains(refusal("{\n\"a\": 1e999}"), "run.json"));
  CHECK(contains(refusal("{} {}"), "run.json: not a configuration in JSON: line 1: "));
  CHECK(contains(refusal(""), "run.json: not a configuration in JSON"));
  CHECK(contains(refusal(std::string(1000, '[')), "more than 64 levels"));
}

TEST_CASE("configuration in JSON: files that cannot be read are errors with their path") {
  const TemporaryFolder folder;
  CHECK(message_of<ConfigError>([&] { JsonDocument::read(folder / "none.json"); }) ==
        folder / "none.json" + ": expected a configuration file, there is none");
  CHECK(contains(message_of<ConfigError>([&] { JsonDocument::read(folder / "."); }), "no regular file"));
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(contains(message_of<ConfigError>([&] { JsonDocument::read(folder / "fifo"); }), "no regular file"));
  std::ofstream(folder / "run.json") << "{\"a\": 3}";
  CHECK(JsonDocument::read(folder / "run.json").root().members()[0].second.as_integer() == 3);
}
