#include "cli/image/batch.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "bench/image/picture_sums.h"
#include "bench/image/surprise.h"
#include "cli/command.h"
#include "cli/image/drawing.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json_text.h"
#include "io/quote.h"
#include "verify/verifier.h"

namespace talon {
namespace {

// Files of prompts of `talon train data` say source and licence.
constexpr std::string_view kBatchKeys[] = {"prompt", "class",    "caption_features",
                                           "seed",   "guidance", "guidance_tokens",
                                           "out",    "source",   "licence"};
constexpr std::size_t kMostPictureNameBytes =
    224;  // 255 less what a name has until its file is whole

/// The name of the picture of a line in the folder.
std::string name_of(const LineSettings& line, int number) {
  const Json* value = line.find("out");
  if (!value) return fmt::format("{:05}.png", number);
  const std::string name = value->is_string() ? value->get<std::string>() : "";
  const bool is_name = !name.empty() &&
                       name.find_first_of(std::string_view("/\0", 2)) == std::string::npos &&
                       name != "." && name != "..";
  if (!is_name) line.refuse("out: expected the name of a file", value->dump());
  if (name.size() > kMostPictureNameBytes) {
    line.refuse(fmt::format("out: expected a name of at most {} bytes", kMostPictureNameBytes),
                fmt::format("{} bytes", name.size()));
  }
  return name;
}

class BatchRun {
 public:
  BatchRun(const LoadedModel& loaded, const VqDecoder& decoder, const BatchOptions& options,
           std::vector<BatchLine> lines, std::size_t there)
      : loaded_(loaded),
        decoder_(decoder),
        options_(options),
        lines_(std::move(lines)),
        there_(there),
        lossless_(make_verifier(options.decode.verify)->lossless()) {}

  int run() {
    const InterruptGuard interrupt;
    Drawing drawing;
    drawing.room = room();
    drawing.next = [&] { return next_request(); };
    drawing.drawn = [&](std::size_t picture, Answer answer) {
      if (answer.finish != FinishReason::cancelled) finish(lines_[picture], answer);
    };
    const double ms =
        lines_.empty() ? 0 : draw(loaded_, options_.decode, drawing, &interrupt.stop());
    report(ms);
    if (!interrupt.stop().requested()) return kExitDone;
    note("stopped; the same command goes on");
    return kExitInterrupted;
  }

 private:
  PictureRoom room() const {
    PicturesToDraw all{.pictures = lines_.size(), .type = options_.kv};
    for (const BatchLine& line : lines_) {
      all.prompt_tokens = std::max(all.prompt_tokens, line.asked.prompt.own.size());
      if (line.facts.guidance > 1) all.streams = 2;
    }
    return picture_room(loaded_.model, all);
  }

  std::optional<Request> next_request() {
    if (next_ == lines_.size()) return std::nullopt;
    return request_of(lines_[next_++]);
  }

  Request request_of(const BatchLine& line) const {
    Request request;
    ask_for(loaded_.model, line.asked.whole(loaded_), line.facts.guidance, request);
    request.guidance_tokens = line.facts.guidance_tokens;
    request.sampler = line.facts.sampler;
    request.seed = line.facts.seed;
    return request;
  }

  void finish(const BatchLine& line, const Answer& answer) {
    const ImagePlan& plan = *loaded_.model.config.image;
    const Stopwatch watch;
    const Picture picture = decoder_.decode(codes_of(plan, answer.tokens));
    decode_ms_ += watch.ms();
    const PictureSums sums = sums_of(plan, answer.tokens, answer.statistics);
    PngTexts texts = texts_of(line.facts);
    texts.emplace_back("tau", fmt::format("{:.3f}", sums.tau()));
    write_png(line.file, picture, texts);
    totals_.add(plan, answer.tokens, answer.statistics);
    if (options_.json) {
      Json json = {{"line", line.number},
                   {"file", line.file.string()},
                   {"prompt", line.facts.prompt},
                   {"seed", line.facts.seed},
                   {"guidance", line.facts.guidance},
                   {"guidance_tokens", line.facts.guidance_tokens},
                   {"tokens", answer.tokens},
                   {"accepted", answer.statistics.accepted},
                   {"surprise", surprise_json(line, answer)},
                   {"width", picture.width},
                   {"height", picture.height}};
      json.update(numbers_of(sums));
      write_json(json);
    } else {
      write_output(line.file.string() + "\n");
    }
    meter_.update(static_cast<std::uint64_t>(totals_.pictures), lines_.size());
  }

  /// Null where drafts change no law: it is nothing then in expectation, and takes a forward.
  Json surprise_json(const BatchLine& line, const Answer& answer) {
    if (lossless_) return nullptr;
    const Surprise surprise = surprise_of(loaded_.model, request_of(line), answer.tokens);
    surprises_.add(line.facts.seed, surprise);
    return surprise.mean();
  }

  void report(double ms) const {
    const double pictures_s = ms > 0 ? totals_.pictures / ms * 1000 : 0;
    if (options_.json) {
      Json summary = {{"pictures", totals_.pictures},
                      {"there", there_},
                      {"left", lines_.size() - static_cast<std::size_t>(totals_.pictures)},
                      {"tokens", totals_.tokens},
                      {"surprise", nullptr},
                      {"draw_ms", ms},
                      {"decode_ms", decode_ms_},
                      {"images_s", pictures_s},
                      {"drafter", options_.decode.drafter},
                      {"policy", options_.decode.policy},
                      {"verify", options_.decode.verify}};
      summary.update(summary_of(totals_));
      if (!lossless_) summary["surprise"] = surprises_.mean();
      write_json({{"summary", std::move(summary)}});
      return;
    }
    note("{}: {} pictures drawn, {} were there, {} left; {:.2f} codes a forward, {:.2f} pictures/s",
         options_.decode.drafter, totals_.pictures, there_,
         lines_.size() - static_cast<std::size_t>(totals_.pictures), totals_.steps_compression(),
         pictures_s);
  }

  const LoadedModel& loaded_;
  const VqDecoder& decoder_;
  const BatchOptions& options_;
  std::vector<BatchLine> lines_;
  std::size_t there_;
  bool lossless_;  // the rule
  std::size_t next_ = 0;
  PictureSums totals_;
  SurpriseOfPictures surprises_;  // beside a rule that relaxes, of what --json tells
  double decode_ms_ = 0;
  ProgressMeter meter_{"draw pictures"};
};

}  // namespace

std::vector<BatchLine> read_batch(const LoadedModel& loaded, const BatchOptions& options) {
  errno = 0;
  std::ifstream file(options.file);
  if (!file) fail("read {}: {}", options.file.string(), std::strerror(errno));
  std::vector<BatchLine> lines;
  std::map<std::string, int> names;  // and the lines that have them
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    if (is_blank(text)) continue;
    const std::string doing = fmt::format("{} line {}", options.file.string(), number);
    const Json json = parse_json(text, doing);
    const LineSettings settings(json, kBatchKeys, doing);
    BatchLine line{number, read_asked_picture(loaded, json, doing), options.usual, {}};
    line.facts.prompt = line.asked.shown;
    line.facts.caption = line.asked.caption_hash;
    line.facts.seed = settings.seed(options.usual.seed + lines.size());
    line.facts.guidance = settings.guidance(options.usual.guidance);
    line.facts.guidance_tokens = settings.guidance_tokens(options.usual.guidance_tokens);
    const std::string name = name_of(settings, number);
    line.file = options.folder / name;
    if (const auto [before, is_new] = names.emplace(name, number); !is_new) {
      settings.refuse("out: expected a name of its own",
                      fmt::format("{}, as in line {}", quote(name), before->second));
    }
    lines.push_back(std::move(line));
  }
  if (file.bad()) fail("read {}: it cannot be read to its end", options.file.string());
  if (lines.empty())
    throw UsageError(fmt::format("{}: expected lines, found none", options.file.string()));
  return lines;
}

std::vector<BatchLine> left_of(const std::vector<BatchLine>& lines,
                               const std::filesystem::path& batch) {
  std::vector<BatchLine> left;
  for (const BatchLine& line : lines) {
    std::error_code problem;
    const bool is_there = std::filesystem::exists(line.file, problem);
    if (problem) {
      fail("{} line {}: {}: {}", batch.string(), line.number, line.file.string(),
           problem.message());
    }
    if (!is_there) {
      left.push_back(line);
      continue;
    }
    const std::string other = difference(read_png_texts(line.file), line.facts);
    if (other.empty()) continue;
    throw UsageError(
        fmt::format("{} line {}: {} is there and is another picture ({}); name another, or remove "
                    "it",
                    batch.string(), line.number, line.file.string(), other));
  }
  return left;
}

int run_batch(const LoadedModel& loaded, const VqDecoder& decoder, const BatchOptions& options) {
  const std::vector<BatchLine> lines = read_batch(loaded, options);
  std::error_code ignored;
  std::filesystem::create_directories(options.folder, ignored);
  if (!std::filesystem::is_directory(options.folder, ignored))
    fail("write to {}: expected a folder that can be made", options.folder.string());
  std::vector<BatchLine> left = left_of(lines, options.file);
  if (!left.empty()) {
    const AtomicFile probe(left.front().file);  // refuses what cannot be written
  }
  const std::size_t there = lines.size() - left.size();
  note("{} of {} pictures are there", there, lines.size());
  return BatchRun(loaded, decoder, options, std::move(left), there).run();
}

}  // namespace talon
