// Every row of the opcode table has a test, and its source names the section of the PTX ISA that it follows.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tools/cuda_sim/instructions/opcode_table.h"

using namespace tessera::cuda_sim;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> sources_below(const fs::path& folder) {
  std::vector<std::string> texts;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp" || entry.path().filename() == "coverage.cpp") continue;
    std::ifstream file(entry.path());
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

bool is_in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':' || c == '%';
}

/// Whether `text` has the opcode as a word; in PTX modifiers or an operand follow.
bool has_word(const std::string& text, std::string_view opcode) {
  for (size_t at = text.find(opcode); at != std::string::npos; at = text.find(opcode, at + 1)) {
    const size_t end = at + opcode.size();
    const bool begins = at == 0 || !is_in_name(text[at - 1]);
    const bool ends = end == text.size() || text[end] == '.' || !is_in_name(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

/// The comment at the begin of a source.
std::string opening_comment(const std::string& text) {
  size_t end = 0;
  while (text.compare(end, 2, "//") == 0) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

/// The texts between quotation marks: PTX, in a test.
std::string quoted(const std::string& text) {
  std::string result;
  bool is_inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) is_inside = !is_inside;
    if (is_inside) result += text[i];
  }
  return result;
}

}  // namespace

TEST_CASE("instructions: every opcode has a test, and a section of the PTX ISA") {
  const fs::path tests = fs::path(TESSERA_TEST_DATA_DIR) / "cuda_sim" / "instructions",
                 sources = fs::path(TESSERA_TEST_DATA_DIR).parent_path() / "tools/cuda_sim/instructions";
  std::string tested, cited;
  for (const std::string& text : sources_below(tests)) tested += quoted(text) + '\n';
  for (const std::string& text : sources_below(sources)) {
    const std::string comment = opening_comment(text);
    if (comment.starts_with("// PTX ISA, \"")) cited += comment + '\n';
  }
  for (const OpcodeRow& row : opcode_rows()) {
    CHECK_MESSAGE(has_word(tested, row.opcode), row.opcode, " has no test in ", tests.string());
    CHECK_MESSAGE(has_word(cited, row.opcode), row.opcode, " is in no section in ", sources.string());
  }
  CHECK(opcode_rows().size() > 80);
}
