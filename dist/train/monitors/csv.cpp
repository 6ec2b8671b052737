#include "dist/train/monitors/csv.h"

#include <algorithm>
#include <charconv>

#include "dist/train/monitors/metric_file.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

/// A field as RFC 4180 has it.
std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string result = "\"";
  for (const char c : field) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

std::string header_of(const std::vector<std::string>& columns) {
  std::string line = "step";
  for (const std::string& name : columns) line += "," + quoted(name);
  return line + "\n";
}

/// The bytes of the table's first record with its line end, 0 where it is unfinished. Only names are quoted,
/// so every record after it is one line.
size_t header_size(std::string_view table) {
  bool is_quoted = false;
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] == '"') is_quoted = !is_quoted;
    if (table[i] == '\n' && !is_quoted) return i + 1;
  }
  return 0;
}

/// The fields of a record without its line end.
std::vector<std::string> fields_of(std::string_view record) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    if (c == '"' && is_quoted && i + 1 < record.size() && record[i + 1] == '"')
      fields.back() += record[++i];
    else if (c == '"')
      is_quoted = !is_quoted;
    else if (c == ',' && !is_quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

/// The step of a row. Throws DataError unless the row has so many fields.
int64_t step_of(std::string_view row, size_t fields, const std::string& where) {
  const auto found = static_cast<size_t>(std::count(row.begin(), row.end(), ',')) + 1;
  require<DataError>(found == fields, where, ": expected ", fields, " fields, got ", found);
  const std::string_view digits = row.substr(0, row.find(','));
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  require<DataError>(error == std::errc() && end == digits.data() + digits.size(), where,
                     ": expected a step, got '", digits, "'");
  return step;
}

}  // namespace

CsvMonitor::CsvMonitor(std::string path) : path_(std::move(path)) {}
CsvMonitor::~CsvMonitor() = default;

void CsvMonitor::begin(const RunDescription& run) {
  file_.reset();
  columns_.clear();
  index_.clear();
  if (run.resume_step >= 0) read_table(run.resume_step);
  const bool is_new = columns_.empty();
  file_ = std::make_unique<AppendedFile>(path_, is_new);
  if (is_new) file_->append(header_of(columns_));
}

void CsvMonitor::read_table(int64_t resume_step) {
  const std::string table = read_if_present(path_);
  const size_t size = header_size(table);
  if (size == 0) return;  // killed before the first line was written
  const std::string_view first(table.data(), size - 1);
  std::vector<std::string> names = fields_of(first);
  require<DataError>(names[0] == "step", path_, ":1: expected the first column to be 'step', got '", names[0],
                     "'");
  std::string kept = table.substr(0, size);
  auto line = 2 + std::count(first.begin(), first.end(), '\n');
  size_t begin = size;
  for (size_t end; (end = table.find('\n', begin)) != std::string::npos; begin = end + 1, ++line) {
    const std::string row = table.substr(begin, end - begin);
    if (step_of(row, names.size(), tessera::text(path_, ":", line)) <= resume_step) kept += row + "\n";
  }
  columns_.assign(names.begin() + 1, names.end());
  for (size_t i = 0; i < columns_.size(); ++i)
    require<DataError>(index_.emplace(columns_[i], i).second, path_, ":1: expected every column once, got '",
                       columns_[i], "' twice");
  if (kept != table) replace_file(path_, kept);
}

void CsvMonitor::add_columns(std::span<const MetricValue> values) {
  std::vector<std::string> columns = columns_;
  std::string empty_fields;
  for (const MetricValue& value : values) {
    if (index_.contains(value.name)) continue;
    columns.push_back(value.name);
    empty_fields += ',';
  }
  if (empty_fields.empty()) return;
  const std::string table = read_if_present(path_);
  std::string wider = header_of(columns);
  size_t begin = header_size(table);
  for (size_t end; (end = table.find('\n', begin)) != std::string::npos; begin = end + 1)
    wider += table.substr(begin, end - begin) + empty_fields + "\n";
  replace_file(path_, wider);
  file_ = std::make_unique<AppendedFile>(path_, false);
  for (size_t i = columns_.size(); i < columns.size(); ++i) index_[columns[i]] = i;
  columns_ = std::move(columns);
}

void CsvMonitor::scalars(int64_t step, std::span<const MetricValue> values) {
  require<ConfigError>(file_ != nullptr, path_, ": reported outside a run: call begin first");
  require_names(values, path_);
  add_columns(values);
  std::vector<std::string> fields(columns_.size());
  for (const MetricValue& value : values) fields[index_.at(value.name)] = number_text(value.value);
  std::string row = std::to_string(step);
  for (const std::string& field : fields) row += "," + field;
  file_->append(row + "\n");
}

void CsvMonitor::flush() {
  if (file_) file_->sync();
}

void CsvMonitor::close() {
  flush();
  file_.reset();
}

void CsvMonitor::end() {
  close();
}

}  // namespace tessera::training
