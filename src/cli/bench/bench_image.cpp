#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>

#include "bench/image/code_counts.h"
#include "bench/image/image_report.h"
#include "bench/image/picture_sums.h"
#include "bench/image/sample_time.h"
#include "bench/image/surprise.h"
#include "bench/method_name.h"
#include "bench/provenance.h"
#include "cli/bench/bench_report.h"
#include "cli/command.h"
#include "cli/image/asked_picture.h"
#include "cli/image/drawing.h"
#include "cli/image/picture_sampling.h"
#include "cli/options/draft_options.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/options/sampler_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "draw/picture_facts.h"
#include "draw/picture_prompt.h"
#include "io/json_text.h"
#include "runtime/cache_budget.h"
#include "trace/statistics.h"

namespace talon {
namespace {

// Files of prompts of `talon train data` say source and licence.
constexpr std::string_view kLineKeys[] = {"prompt", "class",    "caption_features",
                                          "seed",   "guidance", "guidance_tokens",
                                          "source", "licence"};

/// What a method did on all pictures.
struct Summary {
  PictureSums sums;
  int equal = 0, nodes = 0, foreground_rounds = 0, foreground_codes = 0;
  double draw_ms = 0, draft_ms = 0, check_ms = 0, sample_ms = 0;
  std::vector<double> speedups;
  SurpriseOfPictures surprise;
};

struct DrawnPicture {
  std::string prompt, caption_hash;
  Request request;
  std::vector<Answer> answers;  // by method
  std::vector<double> ms;
  std::vector<Surprise> surprises;
};

/// The code that plain pictures hold most often.
TokenId background_of(const ImagePlan& plan, const std::vector<DrawnPicture>& pictures) {
  std::vector<std::span<const TokenId>> plain;
  for (const DrawnPicture& picture : pictures) plain.emplace_back(picture.answers[0].tokens);
  return commonest_code(plan, plain);
}

double ratio(int sum, int count) { return static_cast<double>(sum) / std::max(1, count); }

/// "02-eagle2" for the third method, "eagle2:head=h@verify=lantern:k=10".
std::string folder_of(std::size_t index, const std::string& method) {
  return fmt::format("{:02}-{}", index, method.substr(0, method.find_first_of(":@+/")));
}

class BenchImage : public Command {
 public:
  explicit BenchImage(CLI::App& parent)
      : Command(
            parent.add_subcommand("image", "ways to draw beside plain drawing, one at a time")) {
    add_model_flag(*app_, model_);
    app_->add_option("--methods", list_, "DRAFTER[@policy=POLICY][@verify=RULE]; none is added")
        ->type_name("M1,M2,...")
        ->required();
    app_->add_option("--prompts", prompts_file_,
                     "JSON lines: {\"prompt\": TEXT}, {\"class\": NUMBER or NAME} or "
                     "{\"caption_features\": FILE}, perhaps with \"seed\", \"guidance\" and "
                     "\"guidance_tokens\"")
        ->type_name("FILE")
        ->required();
    add_int(*app_, "-n,--images", images_, 1, 1 << 20, "of each prompt");
    add_int(*app_, "--limit", limit_, 0, 1 << 30, "first prompts only, 0 for all");
    app_->add_option("--pictures", pictures_,
                     "also write what each method drew, to a folder for each in DIR")
        ->type_name("DIR");
    app_->add_option("--vq", vq_,
                     "the tokenizer, for --pictures and the rule lantern (default: vq.safetensors "
                     "of the model)")
        ->type_name("FILE");
    app_->add_option("--report", report_, "also write pictures.html, .md and .jsonl there")
        ->type_name("DIR")
        ->check(no_empty_text);
    add_cells_flag(*app_, model_);
    add_picture_sampling_flags(*app_, sampling_);
    add_decode_flags(*app_, decode_);
    add_forward_flags(*app_, model_);
    add_context_flag(*app_, model_);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    methods_ = split_methods(list_);
    if (methods_.empty()) throw UsageError("--methods: expected at least one method, found none");
    std::erase(methods_, kPlain);
    methods_.insert(methods_.begin(), kPlain);
    require_each_once("--methods", methods_);
    make_report_folder(report_);
    const LoadedModel loaded = load_with_meter(model_);
    use_usual_sampling(*app_, loaded.model, sampling_);
    std::optional<VqDecoder> decoder;
    if (!pictures_.empty()) decoder.emplace(open_picture_decoder(loaded.model, vq_));
    if (decoder) make_picture_folders();
    std::vector<DrawnPicture> pictures = read_prompts(loaded);
    const std::size_t asked = pictures.size();
    const bool finished = draw_all(loaded, pictures);
    std::vector<Summary> summaries(methods_.size());
    const TokenId background = background_of(*loaded.model.config.image, pictures);
    for (const DrawnPicture& picture : pictures) {
      for (std::size_t method = 0; method < methods_.size(); ++method)
        add(*loaded.model.config.image, picture, method, background, summaries[method]);
    }
    if (decoder) write_pictures(loaded, *decoder, pictures);
    close(loaded, summaries, background, finished);
    if (!finished) {
      note("stopped; the summary is that of {} of {} pictures", pictures.size(), asked);
      return kExitInterrupted;
    }
    const bool all_equal = std::ranges::all_of(summaries, [&](const Summary& one) {
      const auto index = static_cast<std::size_t>(&one - summaries.data());
      return one.equal == one.sums.pictures || !keeps_codes_[index];
    });
    return all_equal ? kExitDone : kExitFailed;
  }

 private:
  std::vector<DrawnPicture> read_prompts(const LoadedModel& loaded) const {
    errno = 0;
    std::ifstream file(prompts_file_);
    if (!file) fail("read {}: {}", prompts_file_, std::strerror(errno));
    std::vector<DrawnPicture> pictures;
    std::string line;
    int prompts = 0;
    for (int number = 1; std::getline(file, line); ++number) {
      if (is_blank(line)) continue;
      if (limit_ > 0 && ++prompts > limit_) break;
      const std::string doing = fmt::format("read {} line {}", prompts_file_, number);
      const Json json = parse_json(line, doing);
      const LineSettings settings(json, kLineKeys, doing);
      const std::uint64_t seed = settings.seed(sampling_.seed + pictures.size());
      DrawnPicture picture;
      const AskedPicture asked = read_asked_picture(loaded, json, doing);
      picture.prompt = asked.shown;
      picture.caption_hash = asked.caption_hash;
      const float guidance = settings.guidance(static_cast<float>(sampling_.guidance));
      ask_for(loaded.model, asked.whole(loaded), guidance, picture.request);
      picture.request.guidance_tokens = settings.guidance_tokens(sampling_.guidance_tokens);
      picture.request.sampler = sampling_.sampler;
      picture.request.reuse_prefix = false;
      for (int i = 0; i < images_; ++i) {
        picture.request.seed = seed + static_cast<std::uint64_t>(i);
        pictures.push_back(picture);
      }
    }
    if (file.bad()) fail("read {}: it cannot be read to its end", prompts_file_);
    if (pictures.empty()) fail("read {}: expected a prompt, found none", prompts_file_);
    return pictures;
  }

  /// Each picture by all methods, one after the other, so that the machine is the same for all, and
  /// another one first each time; then its lines, which stay whatever ends the run.
  /// False if it was stopped; pictures that were not drawn by all methods are then left out.
  bool draw_all(const LoadedModel& loaded, std::vector<DrawnPicture>& pictures) {
    PicturesToDraw one{.type = model_.kv};
    for (const DrawnPicture& picture : pictures) {
      one.prompt_tokens = std::max(one.prompt_tokens, picture.request.prompt.size());
      one.streams = std::max(one.streams, picture.request.streams());
    }
    const auto cache = open_cache(loaded.model, picture_room(loaded.model, one).cache);
    use_places(decode_, loaded, cache->store().shape.type);
    decode_.drafter = kPlain;
    decode_.codebook = codebook_of(loaded.model, vq_);
    Answerer answerer(loaded.model, *cache, nullptr, decode_);
    std::vector<MethodId> ids;
    for (const std::string& method : methods_) {
      ids.push_back(answerer.method(method));
      const DecodeSettings settings = with_method(decode_, parse_method(method));
      keeps_codes_.push_back(keeps_tokens(settings));
    }
    const InterruptGuard interrupt;
    const auto answer = [&](Request request, MethodId id) {
      request.method = id;
      return answerer.decode(std::move(request), {}, &interrupt.stop());
    };
    const auto stopped = [&] { return interrupt.stop().requested(); };
    for (const MethodId id : ids) {  // warm
      if (!stopped()) answer(pictures[0].request, id);
    }
    ProgressMeter meter("bench image, pictures");
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      meter.update(i, pictures.size());
      pictures[i].ms.resize(ids.size());
      pictures[i].answers.resize(ids.size());
      bool is_whole = !stopped();
      for (std::size_t turn = 0; turn < ids.size() && is_whole; ++turn) {
        const std::size_t method = (i + turn) % ids.size();
        const Stopwatch watch;
        Answer& drawn = pictures[i].answers[method];
        drawn = answer(pictures[i].request, ids[method]);
        pictures[i].ms[method] = watch.ms();
        is_whole =
            drawn.finish != FinishReason::cancelled && (turn + 1 == ids.size() || !stopped());
      }
      if (!is_whole) {
        pictures.resize(i);
        return false;
      }
      tell(loaded.model, pictures[i]);
    }
    meter.update(pictures.size(), pictures.size());
    return true;
  }

  void write_line(Json line) {
    write_json(line);
    lines_.push_back(std::move(line));
  }

  /// The last line, and the report.
  void close(const LoadedModel& loaded, const std::vector<Summary>& summaries, TokenId background,
             bool finished) {
    Json summary = Json::object();
    for (std::size_t i = 0; i < methods_.size(); ++i) {
      Json one = json_of(summaries[i]);
      if (!pictures_.empty()) one["pictures"] = picture_folder(i).string();
      summary[methods_[i]] = std::move(one);
    }
    Json closing = provenance(settings_json(loaded));
    closing["model"] = model_.model;
    closing["backend"] = loaded.backend->description();
    closing["partial"] = !finished;
    closing["background"] = background;
    closing["methods"] = methods_;
    closing["summary"] = std::move(summary);
    write_line(std::move(closing));
    const std::vector<Json> methods = method_lines(lines_.back());
    note("{}", image_markdown(methods));
    if (report_.empty()) return;
    write_report(report_, "pictures", image_report(methods, model_.model), image_markdown(methods),
                 lines_);
  }

  Json settings_json(const LoadedModel& loaded) const {
    Json settings = {{"prompts", prompts_file_},
                     {"images", images_},
                     {"limit", limit_},
                     {"guidance", sampling_.guidance},
                     {"guidance_tokens", sampling_.guidance_tokens},
                     {"temperature", sampling_.sampler.temperature},
                     {"seed", sampling_.seed},
                     {"policy", decode_.policy},
                     {"verify", decode_.verify},
                     {"chunk", decode_.chunk},
                     {"max_nodes", decode_.max_nodes},
                     {"threads", loaded.threads},
                     {"weights", name_of(loaded.weights)},
                     {"activations", name_of(loaded.activations)},
                     {"kv", name_of(cache_type(loaded.model, model_.kv))}};
    settings.update(talon::json_of(sampling_.sampler));
    return settings;
  }

  std::filesystem::path picture_folder(std::size_t method) const {
    return std::filesystem::path(pictures_) / folder_of(method, methods_[method]);
  }

  /// Before anything is drawn. Pictures of another run are not to be counted among those of this.
  void make_picture_folders() const {
    for (std::size_t method = 0; method < methods_.size(); ++method) {
      const auto folder = picture_folder(method);
      std::error_code problem;
      std::filesystem::create_directories(folder, problem);
      if (problem) fail("--pictures: cannot make {}: {}", folder.string(), problem.message());
      if (!std::filesystem::is_empty(folder, problem) || problem)
        fail("--pictures: expected {} to be empty, found files in it", folder.string());
    }
  }

  void write_pictures(const LoadedModel& loaded, const VqDecoder& decoder,
                      const std::vector<DrawnPicture>& pictures) const {
    PictureFacts facts;
    facts.sampler = sampling_.sampler;
    facts.model = std::filesystem::canonical(loaded.path).filename().string();
    facts.computed_by = computed_by(loaded, decoder, model_);
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      facts.prompt = pictures[i].prompt;
      facts.caption = pictures[i].caption_hash;
      facts.seed = pictures[i].request.seed;
      facts.guidance = pictures[i].request.guidance;
      facts.guidance_tokens = pictures[i].request.guidance_tokens;
      for (std::size_t method = 0; method < methods_.size(); ++method) {
        const DecodeSettings settings = with_method(decode_, parse_method(methods_[method]));
        facts.drafter = settings.drafter;
        facts.verify = settings.verify;
        facts.policy = settings.policy;
        facts.keeps_codes = keeps_codes_[method];
        const auto codes = codes_of(*loaded.model.config.image, pictures[i].answers[method].tokens);
        write_png(picture_folder(method) / fmt::format("{:05}.png", i + 1), decoder.decode(codes),
                  texts_of(facts));
      }
    }
  }

  /// A line for each method. What needs the background of all pictures is the summary's.
  void tell(const Model& model, DrawnPicture& picture) {
    const Answer& plain = picture.answers[0];
    for (std::size_t method = 0; method < methods_.size(); ++method) {
      const Answer& answer = picture.answers[method];
      const SequenceStatistics& s = answer.statistics;
      picture.surprises.push_back(surprise_of(model, picture.request, answer.tokens));
      Json line = {{"prompt", picture.prompt},
                   {"seed", picture.request.seed},
                   {"method", methods_[method]},
                   {"tokens", answer.tokens.size()},
                   {"accepted", s.accepted},
                   {"draw_ms", picture.ms[method]},
                   {"speedup", picture.ms[0] / picture.ms[method]},
                   {"equal", answer.tokens == plain.tokens},
                   {"surprise", picture.surprises[method].mean()}};
      line.update(numbers_of(sums_of(*model.config.image, answer.tokens, s)));
      write_line(std::move(line));
    }
  }

  static void add(const ImagePlan& plan, const DrawnPicture& picture, std::size_t method,
                  TokenId background, Summary& summary) {
    const Answer& answer = picture.answers[method];
    const SequenceStatistics& s = answer.statistics;
    const CodeCounts counts = counts_of(plan, answer.tokens, s.accepted, background);
    summary.sums.add(plan, answer.tokens, s);
    summary.equal += answer.tokens == picture.answers[0].tokens ? 1 : 0;
    summary.nodes = std::accumulate(s.drafted.begin(), s.drafted.end(), summary.nodes);
    summary.draw_ms += picture.ms[method];
    summary.draft_ms += s.draft_ms;
    summary.check_ms += s.check_ms;
    summary.sample_ms += sample_ms_of(s);
    summary.foreground_rounds += counts.foreground_rounds;
    summary.foreground_codes += counts.foreground_codes;
    summary.speedups.push_back(picture.ms[0] / picture.ms[method]);
    summary.surprise.add(picture.request.seed, picture.surprises[method]);
  }

  static Json json_of(const Summary& s) {
    const double images = std::max(1, s.sums.pictures);
    Json json = {{"images", s.sums.pictures},
                 {"equal", s.equal / images},
                 {"nodes", ratio(s.nodes, s.sums.rounds)},
                 {"tau_foreground", ratio(s.foreground_codes, s.foreground_rounds)},
                 {"ms", s.draw_ms / images},
                 {"draft_ms", s.draft_ms / images},
                 {"check_ms", s.check_ms / images},
                 {"sample_ms", s.sample_ms / images},
                 {"speedup", spread_of(s.speedups).median},
                 {"worst", s.speedups.empty() ? 0 : *std::ranges::min_element(s.speedups)},
                 {"surprise", s.surprise.mean()},
                 {"surprise_z", s.surprise.z()},
                 {"impossible", s.surprise.impossible()}};
    json.update(summary_of(s.sums));
    return json;
  }

  ModelOptions model_;
  std::string list_, prompts_file_, pictures_, vq_, report_;
  int images_ = 1, limit_ = 0;
  PictureSampling sampling_;
  DecodeSettings decode_;
  std::vector<std::string> methods_;
  std::vector<bool> keeps_codes_;  // by method: no draft changes a code
  std::vector<Json> lines_;        // as they were printed
};

}  // namespace

std::unique_ptr<Command> make_bench_image(CLI::App& parent) {
  return std::make_unique<BenchImage>(parent);
}

}  // namespace talon
