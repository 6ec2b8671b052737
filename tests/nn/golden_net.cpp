#include "tests/nn/golden_net.h"

#include <fstream>

std::string module_goldens::golden(const std::string& key) {
  for (const char* name : {"modules.txt", "parametrizations.txt"}) {
    std::ifstream file(std::string(TESSERA_TEST_DATA_DIR "/nn/goldens/") + name);
    for (std::string line; std::getline(file, line);)
      if (line.rfind(key + ": ", 0) == 0) return line.substr(key.size() + 2);
  }
  FAIL("no golden '", key, "'");
  return "";
}
