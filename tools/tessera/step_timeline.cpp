#include "tools/tessera/step_timeline.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <vector>

#include "tensor/error.h"

namespace tessera::tools {
namespace {

// In SVG units.
constexpr double left = 110, plot_width = 1080, right = 60, line = 34, top = 58;

const char* color_of(std::string_view collective) {
  if (collective == "all_gather") return "#2f7ed8";
  if (collective == "reduce_scatter") return "#3a9d5d";
  return collective == "all_reduce" ? "#8e5bb5" : "#999999";
}

std::string escape_xml(std::string_view content) {
  std::string result;
  for (const char c : content) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

/// The drawing of one step.
class Timeline {
 public:
  Timeline(const Span& step, std::span<const std::string> units) : step_(step), units_(units) {
    svg_ << std::fixed << std::setprecision(1);
  }

  void draw(const Span& span) {
    if (span.begin < step_.begin || span.begin >= step_.end || span.nested) return;
    const std::string_view module = span.module ? span.module : "";
    switch (span.kind) {
      case SpanKind::phase:
        draw_phase(span);
        return;
      case SpanKind::kernel:
        box(span, y_of(unit_of(module)) + 16, 12, "#f0a830", 0.9);
        return;
      case SpanKind::collective:
        for (size_t i = 0; i < units_.size(); ++i)
          if (units_[i] == module) box(span, y_of(i) + 3, 11, color_of(span.name), 0.75);
        return;
      case SpanKind::wait:
        box(span, y_of(units_.size()) + 9, 12, "#d0402f", 0.9);
        return;
      default:
        return;
    }
  }

  std::string finish(const std::string& title) {
    const double bottom = y_of(units_.size() + 1);
    std::ostringstream all;
    all << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << left + plot_width + right << " "
        << bottom + 62
        << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
           "fill=\"white\"/>\n"
        << "<text x=\"10\" y=\"20\" font-size=\"15\">" << escape_xml(title) << "</text>\n";
    for (size_t i = 0; i <= units_.size(); ++i)
      all << "<text x=\"10\" y=\"" << y_of(i) + 20 << "\">"
          << (i < units_.size() ? escape_xml(units_[i]) : "waits") << "</text>\n<line x1=\"" << left
          << "\" x2=\"" << left + plot_width << "\" y1=\"" << y_of(i) + line << "\" y2=\"" << y_of(i) + line
          << "\" stroke=\"#dddddd\"/>\n";
    all << svg_.str() << axis(bottom) << legend(bottom + 40) << "</svg>\n";
    return all.str();
  }

 private:
  double x_of(int64_t time) const {
    const double duration = static_cast<double>(std::max<int64_t>(1, step_.end - step_.begin));
    return left + plot_width * static_cast<double>(std::clamp(time, step_.begin, step_.end) - step_.begin) /
                      duration;
  }
  static double y_of(size_t row) { return top + line * static_cast<double>(row); }

  size_t unit_of(std::string_view module) const {
    size_t found = 0, longest = 0;
    for (size_t i = 0; i < units_.size(); ++i) {
      const std::string& name = units_[i];
      const bool below =
          module.starts_with(name) && (module.size() == name.size() || module[name.size()] == '.');
      if (below && name.size() > longest) found = i, longest = name.size();
    }
    return found;
  }

  void box(const Span& span, double y, double height, const char* color, double opacity) {
    const double x = x_of(span.begin), width = std::max(0.6, x_of(span.end) - x);
    svg_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height
         << "\" fill=\"" << color << "\" fill-opacity=\"" << opacity << "\"><title>"
         << (span.kind == SpanKind::wait ? "waiting in " : "") << span.name;
    if (span.module) svg_ << " of " << escape_xml(span.module);
    svg_ << ", " << static_cast<double>(span.end - span.begin) / 1e3 << " us</title></rect>\n";
  }

  void draw_phase(const Span& span) {
    const double x = x_of(span.begin);
    svg_ << "<line x1=\"" << x << "\" x2=\"" << x << "\" y1=\"32\" y2=\"" << y_of(units_.size() + 1)
         << "\" stroke=\"#888888\" stroke-dasharray=\"3 3\"/>\n<text x=\"" << x + 4
         << "\" y=\"46\" fill=\"#555555\">" << span.name << "</text>\n";
  }

  std::string axis(double y) const {
    std::ostringstream out;
    out << std::fixed << std::setprecision(1);
    for (int i = 0; i <= 10; ++i) {
      const int64_t time = step_.begin + (step_.end - step_.begin) * i / 10;
      out << "<text x=\"" << x_of(time) << "\" y=\"" << y + 16
          << "\" text-anchor=\"middle\" fill=\"#555555\">" << static_cast<double>(time - step_.begin) / 1e6
          << (i == 10 ? " ms" : "") << "</text>\n";
    }
    return out.str();
  }

  static std::string legend(double y) {
    std::ostringstream out;
    const std::pair<const char*, const char*> entries[] = {{"kernels", "#f0a830"},
                                                           {"all_gather", color_of("all_gather")},
                                                           {"reduce_scatter", color_of("reduce_scatter")},
                                                           {"all_reduce", color_of("all_reduce")},
                                                           {"waiting for other ranks", "#d0402f"}};
    double x = left;
    for (const auto& [label, color] : entries) {
      out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"12\" height=\"12\" fill=\"" << color
          << "\"/><text x=\"" << x + 17 << "\" y=\"" << y + 11 << "\">" << label << "</text>\n";
      x += 150;
    }
    return out.str();
  }

  const Span& step_;
  std::span<const std::string> units_;
  std::ostringstream svg_;
};

}  // namespace

std::string step_timeline(const Profiler& profiler, int rank, std::span<const std::string> units,
                          const std::string& title) {
  const std::vector<Profiler::Row> rows = profiler.rows();
  const Span* step = nullptr;
  for (const Profiler::Row& row : rows)
    for (const Span& span : row.spans)
      if (row.rank == rank && span.kind == SpanKind::step && !step) step = &span;
  require<ValueError>(step, "step_timeline: rank ", rank, " has recorded no step");
  Timeline timeline(*step, units);
  for (const Profiler::Row& row : rows)
    if (row.rank == rank)
      for (const Span& span : row.spans) timeline.draw(span);
  return timeline.finish(title);
}

}  // namespace tessera::tools
