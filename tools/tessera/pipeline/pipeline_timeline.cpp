#include "tools/tessera/pipeline/pipeline_timeline.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "tensor/error.h"

namespace tessera::tools {
namespace {

using dist::ActionKind;

// In SVG units.
constexpr double left = 70, plot_width = 1120, right = 20, top = 36, row_height = 30, box_height = 24;

const char* color_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "#5b9bd5";
    case ActionKind::backward:
      return "#4ea866";
    case ActionKind::backward_input:
      return "#7cc08a";
    default:
      return "#f0a830";
  }
}

std::string escape_xml(const std::string& content) {
  std::string result;
  for (const char c : content) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

class Drawing {
 public:
  Drawing(const dist::PipelineSchedule& schedule, const dist::PipelineTimeline& timeline)
      : schedule_(schedule), timeline_(&timeline), chunks_(schedule.chunks()) {
    svg_ << std::fixed << std::setprecision(2);
  }

  std::string draw(const std::string& title, const dist::PipelineTimeline* measured) {
    const auto rows = static_cast<double>(timeline_->ranks.size());
    const double height = row_height * rows + 32, bottom = top + height - 32 + (measured ? height + 24 : 0);
    svg_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << left + plot_width + right << " "
         << bottom + 56 << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         << "<defs><pattern id=\"bubble\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
         << "<rect width=\"6\" height=\"6\" fill=\"#f4f4f4\"/>"
         << "<path d=\"M0 6L6 0\" stroke=\"#c4c4c4\"/></pattern></defs>\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
         << "<text x=\"10\" y=\"20\" font-size=\"15\">" << escape_xml(title) << "</text>\n";
    draw_panel();
    if (measured) {
      timeline_ = measured;
      panel_ = top + height + 24;
      svg_ << "<text x=\"10\" y=\"" << panel_ - 12 << "\" font-size=\"15\">measured, in ms: bubble "
           << text(std::round(1000 * measured->bubble()) / 10) << " %</text>\n";
      draw_panel();
    }
    draw_legend(bottom + 32);
    svg_ << "</svg>\n";
    return svg_.str();
  }

 private:
  void draw_panel() {
    for (size_t rank = 0; rank < timeline_->ranks.size(); ++rank) draw_rank(rank);
    draw_axis(y_of(timeline_->ranks.size()));
  }

  double x_of(double time) const {
    return left + plot_width * time / (timeline_->makespan > 0 ? timeline_->makespan : 1);
  }
  double y_of(size_t rank) const { return panel_ + row_height * static_cast<double>(rank); }

  void draw_rank(size_t rank) {
    svg_ << "<text x=\"10\" y=\"" << y_of(rank) + 17 << "\">rank " << rank << "</text>\n<rect x=\"" << left
         << "\" y=\"" << y_of(rank) << "\" width=\"" << plot_width << "\" height=\"" << box_height
         << "\" fill=\"url(#bubble)\"/>\n";
    for (const dist::TimedAction& timed : timeline_->ranks[rank])
      if (timed.end > timed.begin) draw_action(timed, y_of(rank));
  }

  void draw_action(const dist::TimedAction& timed, double y) {
    const double x = x_of(timed.begin), width = x_of(timed.end) - x;
    const int chunk = schedule_.chunk_of(timed.action.stage);
    const double opacity = chunks_ > 1 ? 1 - 0.6 * chunk / (chunks_ - 1) : 1;
    const std::string label = std::to_string(timed.action.micro_batch);
    svg_ << "<g><title>" << to_string(timed.action) << ": " << text(timed.begin) << " to " << text(timed.end)
         << "</title><rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\""
         << box_height << "\" fill=\"white\"/><rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width
         << "\" height=\"" << box_height << "\" fill=\"" << color_of(timed.action.kind)
         << "\" fill-opacity=\"" << opacity << "\" stroke=\"white\"/>";
    if (width >= 8.0 * static_cast<double>(label.size()) + 2)
      svg_ << "<text x=\"" << x + width / 2 << "\" y=\"" << y + 16 << "\" text-anchor=\"middle\">" << label
           << "</text>";
    svg_ << "</g>\n";
  }

  void draw_axis(double y) {
    for (int i = 0; i <= 10; ++i) {
      const double time = timeline_->makespan * i / 10;
      svg_ << "<text x=\"" << x_of(time) << "\" y=\"" << y + 12
           << "\" text-anchor=\"middle\" fill=\"#555555\">" << text(time) << "</text>\n";
    }
  }

  void draw_legend(double y) {
    const std::pair<const char*, std::string> entries[] = {
        {"F: forward", color_of(ActionKind::forward)},
        {"B: backward", color_of(ActionKind::backward)},
        {"I: gradients of inputs", color_of(ActionKind::backward_input)},
        {"W: gradients of weights", color_of(ActionKind::backward_weight)},
        {"bubble", "url(#bubble)"}};
    double x = left;
    for (const auto& [label, fill] : entries) {
      svg_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"12\" height=\"12\" fill=\"" << fill
           << "\"/><text x=\"" << x + 17 << "\" y=\"" << y + 11 << "\">" << label << "</text>\n";
      x += 180;
    }
    if (chunks_ > 1) svg_ << "<text x=\"" << x << "\" y=\"" << y + 11 << "\">lighter: later chunks</text>\n";
  }

  const dist::PipelineSchedule& schedule_;
  const dist::PipelineTimeline* timeline_;  // of the panel that is drawn
  double panel_ = top;                      // its first row
  int chunks_;
  std::ostringstream svg_;
};

}  // namespace

std::string pipeline_timeline(const dist::PipelineSchedule& schedule, const dist::PipelineTimeline& timeline,
                              const std::string& title, const dist::PipelineTimeline* measured) {
  return Drawing(schedule, timeline).draw(title, measured);
}

}  // namespace tessera::tools
