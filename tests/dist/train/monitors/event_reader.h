#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// CRC-32C bit by bit, sharing no code with the library's.
uint32_t crc32c_of_bits(std::string_view bytes);

/// The payloads of a TFRecord file. Throws std::runtime_error for a wrong checksum or a cut-off record.
std::vector<std::string> read_tfrecords(const std::string& path);

/// A protobuf message as its fields are on the wire, read by protobuf's CodedInputStream: without a .proto
/// file, so that a wrong field number in the library's is found.
class WireMessage {
 public:
  /// Throws std::runtime_error for bytes that are no message.
  explicit WireMessage(const std::string& bytes);

  bool has(int field) const { return fields_.contains(field); }
  /// The values of a field; each throws std::runtime_error unless there is exactly one.
  /// @{
  int64_t integer(int field) const;
  float f32(int field) const;
  double f64(int field) const;
  std::string text(int field) const;
  WireMessage message(int field) const { return WireMessage(text(field)); }
  /// @}
  /// Of a repeated field.
  std::vector<WireMessage> messages(int field) const;
  /// Of a packed repeated field.
  std::vector<double> doubles(int field) const;

 private:
  std::map<int, std::vector<std::string>> fields_;  // numbers as their bytes
};
