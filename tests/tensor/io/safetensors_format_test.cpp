#include <doctest/doctest.h>

#include "tensor/io/safetensors.h"
#include "tests/support/checkpoint_error.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::io;

namespace {

constexpr const char* one_tensor = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";

/// Writes a file with this header and four bytes of data; returns its path.
std::string write_four_bytes(const TemporaryFolder& folder, const std::string& header) {
  const uint64_t length = header.size();
  const std::string path = folder / "x.safetensors";
  write_bytes(path, std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(4, '\1'));
  return path;
}

/// The error for a file with this header; "" when it is accepted.
std::string refusal(const std::string& header) {
  const TemporaryFolder folder;
  const std::string path = write_four_bytes(folder, header);
  return refused([&] { const SafetensorsFile file(path); });
}

/// The error for a header with this metadata text under "k".
std::string metadata_refusal(const std::string& value) {
  return refusal(std::string("{\"__metadata__\":{\"k\":\"") + value + "\"}," + one_tensor + "}");
}

/// The error for writing a tensor of this name with this metadata; "" when it is written.
std::string write_refusal(const std::string& name, const Metadata& metadata) {
  const TemporaryFolder folder;
  const NamedTensor tensors[] = {{name, Tensor::scalar(1.0f)}};
  const std::string message =
      refused([&] { write_safetensors(folder / "a.safetensors", tensors, metadata); });
  CHECK((message.empty() || std::filesystem::is_empty(folder.path())));  // not even a temporary file
  return message;
}

}  // namespace

TEST_CASE("safetensors: only white space may follow the object") {
  const std::string good = std::string("{") + one_tensor + "}";
  REQUIRE(refusal(good) == "");
  CHECK(refusal(good + "  \n\t\r ") == "");
  CHECK(contains(refusal(good + '\0'), "expected the end of the text, got '\\x00'"));
  CHECK(refusal(good + std::string(8, '\0')) != "");
  CHECK(refusal(good + "  x") != "");
  CHECK(refusal(good + "{}") != "");
}

TEST_CASE("safetensors: strings as in JSON: no raw control characters, UTF-8, no lone surrogates") {
  REQUIRE(metadata_refusal("\\u0007 \\t \xc3\xa9 \xf0\x9f\x98\x80 \\ud83d\\ude00 \\u0000") == "");
  for (const char* control : {"\n", "\t", "\x01", "\x1f"})
    CHECK(contains(metadata_refusal(control), "a control character inside a string"));
  CHECK(metadata_refusal(std::string(1, '\0')) != "");
  for (const char* bytes : {"\x80", "\xff", "\xc3", "\xe2\x82", "\xc0\xaf", "\xe0\x80\xaf",
                            "\xf0\x80\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"})
    CHECK(contains(metadata_refusal(bytes), "expected UTF-8"));
  for (const char* escape : {"\\ud83d", "\\ude00", "\\ud83d x", "\\ud83d\\u0041", "\\ud83d\\ud83d"})
    CHECK(contains(metadata_refusal(escape), "a lone surrogate"));
  for (const char* escape : {"\\x41", "\\u12", "\\u12g4", "\\u+123", "\\"})
    CHECK(metadata_refusal(escape) != "");
  CHECK(contains(refusal("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"),
                 "expected UTF-8"));
}

TEST_CASE("safetensors: escapes as in JSON, in names and in metadata") {
  const TemporaryFolder folder;
  const SafetensorsFile file(
      write_four_bytes(folder, R"({"__metadata__":{"k":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"},)"
                               R"("\u0061\u20ac":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})"));
  CHECK(file.metadata().at("k") == "\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80");
  CHECK(file.find("a\xe2\x82\xac") != nullptr);
}

TEST_CASE("safetensors: numbers as in JSON: no leading zero, no sign, digits on both sides of a point") {
  const auto with_shape = [](const std::string& extent) {
    return refusal(R"({"a":{"dtype":"U8","shape":[)" + extent + R"(],"data_offsets":[0,4]}})");
  };
  REQUIRE(with_shape("4") == "");
  for (const char* extent :
       {"04", "00", "-04", "+4", "4.", ".4", "4e", "0x4", "- 4", "4 4", "Infinity", "NaN"})
    CHECK(contains(with_shape(extent), "not strict JSON"));
  for (const char* extent : {"4.0", "4e0", "-0", "-4", "9223372036854775808", "\"4\"", "null"})
    CHECK(contains(with_shape(extent), "expected integers from 0"));
}

TEST_CASE("safetensors: beside tensors of a dtype that Tensor lacks, the others can be read") {
  const TemporaryFolder folder;
  struct Case {
    const char* dtype;
    int bytes;
  };
  for (const Case& c : {Case{"I8", 2},
                        {"I16", 4},
                        {"U16", 4},
                        {"U32", 8},
                        {"U64", 16},
                        {"C64", 16},
                        {"F8_E4M3", 2},
                        {"F8_E5M2", 2},
                        {"F8_E8M0", 2},
                        {"F4", 1}}) {
    const std::string end = std::to_string(c.bytes), all = std::to_string(c.bytes + 4);
    const std::string header =
        std::string(R"({"q":{"dtype":")") + c.dtype + R"(","shape":[2],"data_offsets":[0,)" + end +
        R"(]},"w":{"dtype":"F32","shape":[1],"data_offsets":[)" + end + "," + all + "]}}";
    const uint64_t length = header.size();
    const float value = 2.5f;
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    bytes += header + std::string(static_cast<size_t>(c.bytes), '\1');
    bytes.append(reinterpret_cast<const char*>(&value), 4);
    const std::string path = folder / "x.safetensors";
    write_bytes(path, bytes);
    const SafetensorsFile file(path);
    CHECK(file.read("w").item() == 2.5);
    CHECK(file.entry("q").shape == Shape{2});
    CHECK(file.entry("q").nbytes() == c.bytes);
    CHECK(contains(refused([&] { file.read("q"); }), std::string("tensor 'q': its dtype ") + c.dtype));
    char out[16];
    CHECK(refused([&] { file.read(file.entry("q"), 0, 2, out); }) != "");
  }
  CHECK(
      contains(refusal(R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,4]}})"), "(3,) I8 takes 3 bytes"));
  CHECK(contains(refusal(R"({"a":{"dtype":"F4","shape":[7],"data_offsets":[0,4]}})"),
                 "no whole number of bytes"));
  CHECK(contains(refusal(R"({"a":{"dtype":"F7","shape":[4],"data_offsets":[0,4]}})"),
                 "dtype 'F7' is none of the format's"));
}

TEST_CASE("safetensors: names are read in the order of the file and written in the order given") {
  const TemporaryFolder folder;
  const std::vector<std::string> names{"z", "a", "m", "b"};
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, Tensor::scalar(1.0f)});
  tensors[1].tensor = Tensor::scalar<uint8_t>(1);
  tensors[2].tensor = Tensor::scalar(1.0);  // f64: its bytes come first
  const std::string path = folder / "a.safetensors";
  write_safetensors(path, tensors);
  std::vector<std::string> read;
  const SafetensorsFile file(path);
  for (const SafetensorsEntry& entry : file.entries()) read.push_back(entry.name);
  CHECK(read == names);
  const std::string bytes = file_bytes(path);
  for (size_t i = 0; i + 1 < names.size(); ++i)
    CHECK(bytes.find("\"" + names[i] + "\":") < bytes.find("\"" + names[i + 1] + "\":"));
}

TEST_CASE("safetensors: a file that could not be read again is not written") {
  REQUIRE(write_refusal("a \xc3\xa9 \n \"", {{"k", "v \x01 \\"}}) == "");
  CHECK(contains(write_refusal("w\xff", {}), "the tensor name 'w\\xff' is not UTF-8"));
  CHECK(contains(write_refusal("w", {{"k\xc0\xaf", ""}}), "the metadata key 'k\\xc0\\xaf' is not UTF-8"));
  CHECK(contains(write_refusal("w", {{"k", "\xed\xa0\x80"}}), "the metadata under 'k' is not UTF-8"));
  CHECK(contains(write_refusal("__metadata__", {}), "a name of its own was expected"));
  CHECK(contains(
      write_refusal("w", {{"k", std::string(100'000'000, 'x')}}),  // NOLINT(bugprone-string-constructor)
      "the limit is 100000000"));
}
