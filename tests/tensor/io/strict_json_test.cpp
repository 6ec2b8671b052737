#include "tensor/io/strict_json.h"

#include <doctest/doctest.h>
#include <json/json.h>

#include <cmath>

#include "tests/support/checkpoint_error.h"

using namespace tessera::io;

namespace {

std::string refusal(const std::string& json) {
  return refused([&] {
    Json::Value root;
    parse_strict_json(json, "x", root);
  });
}

}  // namespace

TEST_CASE("strict JSON: values of every kind are read, numbers with the type of their text") {
  Json::Value root;
  parse_strict_json(
      " { \"a\" : [ 1 , -2, 18446744073709551615, 0.1, 1e3, -0.0 ], \"b\":{}, \"c\":[],\n"
      "\"d\":true,\"e\":false,\"f\":null,\"g\":\"x\" } ",
      "x", root);
  CHECK(root["a"][0].type() == Json::intValue);
  CHECK(root["a"][1].asInt64() == -2);
  CHECK(root["a"][2].asUInt64() == UINT64_MAX);
  CHECK(root["a"][3].asDouble() == 0.1);
  CHECK(root["a"][4].type() == Json::realValue);
  CHECK(std::signbit(root["a"][5].asDouble()));
  CHECK((root["b"].isObject() && root["c"].isArray() && root["d"].asBool() && !root["e"].asBool()));
  CHECK((root["f"].isNull() && root["g"].asString() == "x"));
}

TEST_CASE("strict JSON: text that is not RFC 8259 is refused with its position") {
  REQUIRE(refusal("{\"a\":1}") == "");
  for (const char* json : {"",
                           "{",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{,}",
                           "{\"a\":1 \"b\":2}",
                           "{\"a\":[1,]}",
                           "{\"a\":[,1]}",
                           "{\"a\":[1 2]}",
                           "{\"a\":01}",
                           "{\"a\":1.}",
                           "{\"a\":+1}",
                           "{\"a\":tru}",
                           "{\"a\":nul}",
                           "{'a':1}",
                           "{\"a\":1}x",
                           "{\"a\":1}//",
                           "{\"a\":/**/1}",
                           "{\"a\":1,\"a\":2}",
                           "{a:1}",
                           "{\"a\":1e999}"})
    CHECK_MESSAGE(refusal(json) != "", json);
  CHECK(contains(refusal("{\"a\":1,\"a\":2}"), "Duplicate key: 'a'"));
  CHECK(
      contains(refusal("{\"a\":1 \"b\":2}"), "x: not strict JSON: at byte 7: expected ',' or '}', got '\"'"));
  CHECK(refusal("[1]") == "x: expected a JSON object");
  CHECK(contains(refusal("{\"a\":" + std::string(100'000, '[')), "nested more than"));
}
