#include "tests/dist/train/monitors/event_reader.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#ifdef TESSERA_WITH_TENSORBOARD
#include <google/protobuf/io/coded_stream.h>
#endif

uint32_t crc32c_of_bits(std::string_view bytes) {
  uint32_t remainder = 0xffffffff;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool is_odd = ((remainder ^ (static_cast<unsigned char>(c) >> bit)) & 1) != 0;
      remainder = (remainder >> 1) ^ (is_odd ? 0x82f63b78 : 0);
    }
  return remainder ^ 0xffffffff;
}

namespace {

template <class T>
T value_of(std::string_view bytes) {
  if (bytes.size() != sizeof(T)) throw std::runtime_error("wrong number of bytes");
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void check_crc(std::string_view bytes, std::string_view stored) {
  const uint32_t crc = value_of<uint32_t>(stored) - 0xa282ead8;
  if (((crc << 15) | (crc >> 17)) != crc32c_of_bits(bytes)) throw std::runtime_error("wrong checksum");
}

}  // namespace

std::vector<std::string> read_tfrecords(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> payloads;
  for (size_t at = 0; at < content.size();) {
    const std::string_view rest = std::string_view(content).substr(at);
    if (rest.size() < 16) throw std::runtime_error("cut-off record");
    check_crc(rest.substr(0, 8), rest.substr(8, 4));
    const auto size = value_of<uint64_t>(rest.substr(0, 8));
    if (rest.size() < size + 16) throw std::runtime_error("cut-off record");
    check_crc(rest.substr(12, size), rest.substr(12 + size, 4));
    payloads.emplace_back(rest.substr(12, size));
    at += size + 16;
  }
  return payloads;
}

#ifdef TESSERA_WITH_TENSORBOARD

namespace {

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

void require_read(bool condition) {
  if (!condition) throw std::runtime_error("not a protobuf message");
}

std::string read_field(google::protobuf::io::CodedInputStream& in, uint32_t wire_type) {
  uint64_t eight = 0;
  uint32_t four = 0;
  std::string bytes;
  switch (wire_type) {
    case 0:
      require_read(in.ReadVarint64(&eight));
      return bytes_of(eight);
    case 1:
      require_read(in.ReadLittleEndian64(&eight));
      return bytes_of(eight);
    case 2:
      require_read(in.ReadVarint32(&four) && in.ReadString(&bytes, static_cast<int>(four)));
      return bytes;
    case 5:
      require_read(in.ReadLittleEndian32(&four));
      return bytes_of(four);
    default:
      throw std::runtime_error("a wire type that is not used");
  }
}

}  // namespace

WireMessage::WireMessage(const std::string& bytes) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  while (const uint32_t tag = in.ReadTag())
    fields_[static_cast<int>(tag >> 3)].push_back(read_field(in, tag & 7));
  require_read(in.CurrentPosition() == static_cast<int>(bytes.size()));
}

#else

WireMessage::WireMessage(const std::string&) {
  throw std::runtime_error("built without protobuf");
}

#endif

std::string WireMessage::text(int field) const {
  const auto found = fields_.find(field);
  if (found == fields_.end() || found->second.size() != 1)
    throw std::runtime_error("field " + std::to_string(field) + " is not there once");
  return found->second[0];
}

int64_t WireMessage::integer(int field) const {
  return value_of<int64_t>(text(field));
}

float WireMessage::f32(int field) const {
  return value_of<float>(text(field));
}

double WireMessage::f64(int field) const {
  return value_of<double>(text(field));
}

std::vector<WireMessage> WireMessage::messages(int field) const {
  std::vector<WireMessage> result;
  if (has(field))
    for (const std::string& bytes : fields_.at(field)) result.emplace_back(bytes);
  return result;
}

std::vector<double> WireMessage::doubles(int field) const {
  const std::string bytes = text(field);
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += 8)
    values.push_back(value_of<double>(std::string_view(bytes).substr(at, 8)));
  return values;
}
