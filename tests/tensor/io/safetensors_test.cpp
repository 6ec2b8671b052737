#include "tensor/io/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::io;

namespace {

const std::string fixture = TESSERA_TEST_DATA_DIR "/tensor/io/fixtures/every_dtype.safetensors";

/// A file's bytes in the order of the format: length, header, data.
std::string assemble(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), 8);
  return bytes + header + data;
}

/// The reason for which a file of these bytes is refused; empty when it is accepted.
std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  write_bytes(path, bytes);
  try {
    const SafetensorsFile file(path);
    return "";
  } catch (const CheckpointError& error) {
    const std::string message = error.what();
    REQUIRE(message.rfind(path + ": ", 0) == 0);
    return message.substr(path.size() + 2);
  }
}

std::string refusal(const std::string& header, const std::string& data) {
  return refusal(assemble(header, data));
}

template <class T>
double value_at(const Tensor& tensor, int64_t i) {
  return static_cast<double>(static_cast<float>(tensor.data<T>()[i]));
}

}  // namespace

TEST_CASE("safetensors: a file written by Python's library is read, with every dtype") {
  const SafetensorsFile file(fixture);
  CHECK(file.metadata() == Metadata{{"format", "pt"}, {"note", "line one\nline two"}});
  CHECK(file.entries().size() == 11);
  const double values[] = {0.0, -1.5, 65280.0, 0x1p-14, 3.140625, -0.0};
  const Tensor d = file.read("f64"), f = file.read("f32"), b = file.read("bf16"), h = file.read("f16");
  CHECK(d.shape() == Shape{2, 3});
  for (int64_t i = 0; i < 6; ++i) {
    CHECK(d.data<double>()[i] == values[i]);
    CHECK(std::signbit(d.data<double>()[i]) == std::signbit(values[i]));
    CHECK(value_at<float>(f, i) == values[i]);
    CHECK(value_at<bfloat16>(b, i) == values[i]);
    CHECK(value_at<float16>(h, i) == values[i]);
  }
  CHECK(file.read("i64").shape() == Shape{3});
  const Tensor i64s = file.read("i64"), i32s = file.read("i32"), bytes = file.read("u8"),
               bools = file.read("bool");
  CHECK(i64s.data<int64_t>()[0] == -(int64_t{1} << 62));
  CHECK(i64s.data<int64_t>()[2] == int64_t{1} << 62);
  CHECK(i32s.shape() == Shape{2, 1});
  CHECK(i32s.data<int32_t>()[0] == INT32_MIN);
  CHECK(bytes.data<uint8_t>()[2] == 255);
  CHECK((bools.data<bool>()[0] && !bools.data<bool>()[1] && bools.data<bool>()[2]));
  CHECK(file.read("scalar").shape() == Shape{});
  CHECK(file.read("scalar").item() == 2.5);
  CHECK(file.read("empty").shape() == Shape{0, 3});
  CHECK(file.read("name with \xc3\xa9 and \"quotes\"").item() == 1.0);
  CHECK_THROWS_WITH_AS(file.read("absent"), (fixture + ": has no tensor 'absent'").c_str(), CheckpointError);
}

TEST_CASE(
    "safetensors: a file that is written and read again has the same bits, shapes, metadata and names") {
  const TemporaryFolder folder;
  const std::string path = folder / "copy.safetensors";
  const SafetensorsFile source(fixture);
  std::vector<NamedTensor> tensors;
  for (const SafetensorsEntry& entry : source.entries())
    tensors.push_back({entry.name, source.read(entry.name)});
  write_safetensors(path, tensors, source.metadata());
  const SafetensorsFile copy(path);
  CHECK(copy.metadata() == source.metadata());
  CHECK(copy.entries().size() == tensors.size());
  for (const NamedTensor& item : tensors) {
    const Tensor got = copy.read(item.name);
    CHECK(got.dtype() == item.tensor.dtype());
    CHECK(got.shape() == item.tensor.shape());
    const size_t size = static_cast<size_t>(item.tensor.nbytes());
    CHECK((size == 0 || std::memcmp(got.raw_data(), item.tensor.raw_data(), size) == 0));
    CHECK(copy.entry(item.name).offset % size_of(item.tensor.dtype()) == 0);
  }
}

TEST_CASE("safetensors: the bytes written are those of the format") {
  const TemporaryFolder folder;
  const std::string path = folder / "two.safetensors";
  const NamedTensor tensors[] = {{"b", Tensor::from<uint8_t>({7, 8})}, {"a", Tensor::from<int32_t>({1})}};
  write_safetensors(path, tensors);
  // The names as given, the bytes of the wider type first, the header filled to a multiple of eight with
  // spaces.
  std::string header = R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                       R"("a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})";
  while (header.size() % 8 != 0) header += ' ';
  CHECK(file_bytes(path) == assemble(header, std::string("\x01\0\0\0\x07\x08", 6)));
}

TEST_CASE("safetensors: a view is written in row-major order") {
  const TemporaryFolder folder;
  const std::string path = folder / "view.safetensors";
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const NamedTensor tensors[] = {{"t", x.transpose(0, 1)}};
  write_safetensors(path, tensors);
  const Tensor t = SafetensorsFile(path).read("t");
  CHECK(t.shape() == Shape{3, 2});
  CHECK(t.data<float>()[1] == 4.0f);
  CHECK(t.data<float>()[2] == 2.0f);
}

TEST_CASE("safetensors: every truncation of a file is refused") {
  const std::string full = file_bytes(fixture);
  CHECK(refusal(full).empty());
  for (size_t size = 0; size < full.size(); size += size < 16 ? 1 : 13)
    CHECK_FALSE(refusal(full.substr(0, size)).empty());
  CHECK_FALSE(refusal(full.substr(0, full.size() - 1)).empty());
  CHECK(contains(refusal("abc"), "expected at least 8 bytes, got 3"));
}

TEST_CASE("safetensors: bytes after the last tensor are refused") {
  CHECK(refusal(file_bytes(fixture) + '\0') != "");
  CHECK(contains(refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "xy"),
                 "the tensors end at"));
}

TEST_CASE("safetensors: an impossible header length is refused before memory is allocated") {
  const uint64_t huge = uint64_t{1} << 40;
  CHECK(contains(refusal(std::string(reinterpret_cast<const char*>(&huge), 8) + "{}"), "the limit is"));
  CHECK(contains(refusal("PK\x03\x04 this is a zip file"), "not a safetensors file"));
  const uint64_t beyond = 3;
  CHECK(contains(refusal(std::string(reinterpret_cast<const char*>(&beyond), 8) + "{}"), "truncated"));
}

TEST_CASE("safetensors: headers that are not strict JSON, or not of the format, are refused") {
  const std::string data(4, '\0');
  const std::string good = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  REQUIRE(refusal("{" + good + "}", data).empty());
  REQUIRE(refusal("{" + good + "}   ", data).empty());
  CHECK(refusal("[1]", data) != "");
  CHECK(refusal("{" + good, data) != "");
  CHECK(refusal("{" + good + ",}", data) != "");
  CHECK(refusal("{" + good + "} x", data) != "");
  CHECK(refusal("{" + good + "/* comment */}", data) != "");
  CHECK(contains(refusal("{" + good + "," + good + "}", data), "Duplicate key: 'a'"));
  CHECK(contains(refusal("{" + good + R"(,"__metadata__":{"k":1}})", data), "expected a string under 'k'"));
  CHECK(contains(refusal(R"({"a":{"dtype":"U8","shape":[4]}})", data),
                 "exactly dtype, shape and data_offsets"));
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1}})", data) != "");
  CHECK(refusal(R"({"a":7})", data) != "");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 5000; ++i) deep += '[';
  CHECK(refusal(deep, data) != "");
}

TEST_CASE("safetensors: dtypes, shapes and offsets that do not match are refused with the tensor's name") {
  const std::string data(8, '\0');
  auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return refusal(
        R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
  };
  REQUIRE(one("\"F32\"", "[2]", "[0,8]").empty());
  CHECK(contains(one("\"F8\"", "[8]", "[0,8]"), "tensor 'w': dtype 'F8' is none of the format's"));
  CHECK(contains(one("3", "[2]", "[0,8]"), "dtype: expected a string"));
  CHECK(contains(one("\"F32\"", "[3]", "[0,8]"), "(3,) f32 takes 12 bytes, data_offsets [0, 8] say 8"));
  CHECK(contains(one("\"F32\"", "[2]", "[8,0]"), "takes 8 bytes"));
  CHECK(contains(one("\"F32\"", "[2]", "[8,16]"), "truncated"));
  CHECK(contains(one("\"F32\"", "[1]", "[4,8]"), "bytes 0 to 4 of the data belong to no tensor"));
  CHECK(contains(one("\"F32\"", "[-2]", "[0,8]"), "expected integers from 0, got -2"));
  CHECK(contains(one("\"F32\"", "[2.0]", "[0,8]"), "expected integers from 0"));
  CHECK(contains(one("\"F32\"", "[2]", "[0,8,9]"), "expected [begin, end]"));
  CHECK(contains(one("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "at most 8 dimensions"));
  CHECK(contains(one("\"F32\"", "[4611686018427387904,4]", "[0,0]"), "overflows 64 bits"));
  CHECK(one("\"F32\"", "[18446744073709551615]", "[0,8]") != "");
}

TEST_CASE("safetensors: overlapping tensors are refused, for any order in the header") {
  const std::string data(8, '\0');
  const std::string message = refusal(
      R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
      R"("c":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}})",
      data);
  CHECK(contains(message,
                 "tensor 'b' starts at byte 3 of the data, inside the tensor before it, which ends at 4"));
  CHECK(
      refusal(
          R"({"z":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
          data) != "");
}

TEST_CASE("safetensors: a bool that is neither 0 nor 1 is refused when read") {
  const TemporaryFolder folder;
  const std::string path = folder / "bool.safetensors";
  write_bytes(path, assemble(R"({"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
                             std::string("\0\x01\x02", 3)));
  const SafetensorsFile file(path);
  CHECK_THROWS_AS(file.read("m"), CheckpointError);
}

TEST_CASE("safetensors: a path that is no file, or cannot be written, is an error with the system's reason") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(SafetensorsFile(folder / "none"),
                       ((folder / "none") + ": cannot open: No such file or directory").c_str(),
                       CheckpointError);
  CHECK_THROWS_WITH_AS(SafetensorsFile(folder.path()), (folder.path() + ": expected a regular file").c_str(),
                       CheckpointError);
  write_bytes(folder / "plain", "x");
  const NamedTensor tensors[] = {{"a", Tensor::scalar(1.0f)}};
  CHECK_THROWS_WITH_AS(
      write_safetensors(folder / "plain/a.safetensors", tensors),
      ((folder / "plain/a.safetensors") + ": cannot create a file in this folder: Not a directory").c_str(),
      CheckpointError);
}

TEST_CASE("safetensors: a writer that does not finish leaves the old file") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  write_bytes(path, "before");
  {
    SafetensorsWriter writer(path, {{"a", f32, {2}}, {"b", f32, {2}}});
    CHECK_THROWS_AS(writer.append(Tensor::zeros({3}, f32)), CheckpointError);
    writer.append(Tensor::zeros({2}, f32));
    CHECK_THROWS_AS(writer.commit(), CheckpointError);
  }
  CHECK(file_bytes(path) == "before");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS_AS(SafetensorsWriter(path, {{"a", f32, {2}}, {"a", f32, {2}}}), CheckpointError);
}
