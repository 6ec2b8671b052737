#include "dist/train/monitors/tfrecord.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/dist/train/monitors/event_reader.h"
#include "tests/support/temporary_folder.h"

using namespace tessera::training;

TEST_CASE("tfrecord: CRC-32C has the values of RFC 3720") {
  std::string ascending, descending;
  for (char c = 0; c < 32; ++c) {
    ascending += c;
    descending += static_cast<char>(31 - c);
  }
  const std::vector<std::pair<std::string, uint32_t>> vectors{{"", 0},
                                                              {"123456789", 0xe3069283},
                                                              {std::string(32, '\0'), 0x8a9136aa},
                                                              {std::string(32, '\xff'), 0x62a8ab43},
                                                              {ascending, 0x46dd794e},
                                                              {descending, 0x113fdb5c}};
  for (const auto& [bytes, crc] : vectors) {
    CHECK(crc32c(bytes) == crc);
    CHECK(crc32c_of_bits(bytes) == crc);
  }
}

TEST_CASE("tfrecord: records are read back, and a changed or cut-off one is found") {
  const TemporaryFolder folder;
  const std::vector<std::string> payloads{"first", "", std::string(300, '\x80')};
  std::string file;
  for (const std::string& payload : payloads) file += tfrecord(payload);
  CHECK(file.size() == 5 + 0 + 300 + 3 * 16);
  CHECK(file.substr(0, 8) == std::string("\5\0\0\0\0\0\0\0", 8));
  CHECK(read_tfrecords(folder.write("whole", file)) == payloads);
  std::string changed = file;
  changed[13] ^= 1;
  CHECK_THROWS_AS(read_tfrecords(folder.write("changed", changed)), std::runtime_error);
  CHECK_THROWS_AS(read_tfrecords(folder.write("cut", file.substr(0, file.size() - 1))), std::runtime_error);
}
