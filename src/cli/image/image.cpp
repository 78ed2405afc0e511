#include <algorithm>
#include <functional>
#include <optional>

#include "bench/image/surprise.h"
#include "cli/command.h"
#include "cli/image/batch.h"
#include "cli/image/drawing.h"
#include "cli/image/drawn.h"
#include "cli/image/picture_sampling.h"
#include "cli/image/picture_view.h"
#include "cli/options/draft_options.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "draw/film.h"
#include "draw/picture_prompt.h"
#include "image/png.h"
#include "io/atomic_file.h"
#include "runtime/heads/auto_drafter.h"

namespace talon {
namespace {

constexpr int kSheetGap = 4;  // pixels

struct ImageOptions {
  ModelOptions model;
  std::string prompt, class_name, caption_features, batch, vq, out = "picture.png", sheet, watch;
  int images = 1;
  PictureSampling sampling;
  DecodeSettings decode;
  ShowPictures show = ShowPictures::automatic;
  bool compare = false, json = false;
};

/// Who hears of a drawing.
struct Audience {
  PictureView* view = nullptr;  // null: only how far it is
  /// May be empty.
  std::function<void(const FinishedPicture&)> finished = {};
};

class Image : public Command {
 public:
  explicit Image(CLI::App& parent) : Command(parent.add_subcommand("image", "draw pictures")) {
    add_model_flag(*app_, options_.model);
    app_->add_option("-p,--prompt", options_.prompt,
                     "a text, words and a style, or the name of a class")
        ->type_name("TEXT");
    app_->add_option("--caption-features", options_.caption_features,
                     "safetensors with \"features\" [rows, width] of a caption's text encoder")
        ->type_name("FILE");
    app_->add_option("--class", options_.class_name, "a class: its number, or its name")
        ->type_name("CLASS");
    app_->add_option(
            "--batch", options_.batch,
            "draw what JSON lines ask for: {\"prompt\": TEXT}, {\"class\": NUMBER or NAME} "
            "or {\"caption_features\": FILE}, with \"seed\", \"guidance\", "
            "\"guidance_tokens\" and \"out\" (a name in the folder -o); those that are there "
            "are left out")
        ->type_name("FILE");
    add_int(*app_, "-n,--images", options_.images, 1, 4096,
            "pictures, each with a seed of its own: --seed, the next one, ...");
    app_->add_option("-o,--out", options_.out,
                     "PNG file, of several NAME-1.png, NAME-2.png, ..., or a folder for 00001.png, "
                     "...; of a batch, a folder")
        ->type_name("PATH")
        ->capture_default_str();
    app_->add_option("--grid", options_.sheet, "all on one sheet; COLUMNS times ROWS pictures")
        ->type_name("COLUMNSxROWS");
    app_->add_option("--watch", options_.watch,
                     "animated PNG of the first picture as it grew, beside plain drawing")
        ->type_name("FILE");
    add_choice(*app_, "--show", options_.show,
               {{"auto", ShowPictures::automatic},
                {"always", ShowPictures::always},
                {"never", ShowPictures::never}},
               "the pictures on standard error in half blocks, as they grow and at the end, where "
               "that is a terminal with 24-bit colours; always: at the end everywhere");
    app_->add_option("--vq", options_.vq, "the tokenizer (default: vq.safetensors of the model)")
        ->type_name("FILE");
    add_cells_flag(*app_, options_.model);
    add_picture_sampling_flags(*app_, options_.sampling);
    add_drafter_flag(*app_, options_.decode);
    add_decode_flags(*app_, options_.decode);
    add_forward_flags(*app_, options_.model);
    add_context_flag(*app_, options_.model);
    app_->add_flag("--compare", options_.compare,
                   "draw plainly first; with the rule follow, fail unless the pictures are the "
                   "same");
    app_->add_flag("--json", options_.json, "print one JSON object");
  }

  int run() override {
    if (options_.batch.empty()) {
      check_prompt();
    } else {
      check_batch();
    }
    read_sheet();
    split_drafter(*app_, options_.decode);
    files_ = picture_files(options_.out, columns_ > 0 ? 1 : options_.images);
    check_files();
    const LoadedModel loaded = load_with_meter(options_.model);
    use_usual_sampling(*app_, loaded.model, options_.sampling);
    if (!options_.batch.empty()) return draw_batch(loaded);
    const std::vector<Request> requests = make_requests(loaded);
    const VqDecoder decoder = open_picture_decoder(loaded.model, options_.vq);
    prepare(loaded, decoder);
    const InterruptGuard interrupt;
    std::optional<Drawn> plain;
    if (options_.compare) {
      DecodeSettings settings = options_.decode;
      settings.drafter = "none";
      settings.verify = "follow";
      plain = draw_all(loaded, settings, requests, {}, interrupt.stop());
      if (interrupt.stop().requested()) return kExitInterrupted;
    }
    const ImagePlan& plan = *loaded.model.config.image;
    PictureView view(options_.show, plan, decoder, requests.size(), columns_);
    const std::size_t kept = columns_ > 0 ? requests.size() : PictureView::kMostShown;
    std::vector<Picture> pictures(std::min(kept, requests.size()));
    const auto finish = [&](const FinishedPicture& one) {
      const Stopwatch watch;
      Picture picture = decoder.decode(codes_of(plan, one.answer.tokens));
      decode_ms_ += watch.ms();
      if (columns_ == 0) write_png(files_[one.index], picture, file_texts(plan, one));
      if (one.index < pictures.size()) pictures[one.index] = std::move(picture);
    };
    const Drawn drawn =
        draw_all(loaded, options_.decode, requests, {&view, finish}, interrupt.stop());
    if (options_.json) judge(loaded.model, requests, drawn);
    if (drawn.pictures.size() < requests.size()) return report_stopped(plan, drawn, decoder);
    view.finish(pictures);
    if (columns_ > 0) {
      write_png(files_[0], sheet_of(pictures, columns_, kSheetGap),
                file_texts(plan, drawn.pictures[0]));
    }
    if (!options_.watch.empty()) write_film(plan, pictures[0], drawn);
    const bool equal = !plain || is_equal(*plain, drawn);
    report(plan, drawn, plain, decoder, equal);
    return equal || !keeps_tokens(options_.decode) ? kExitDone : kExitFailed;
  }

 private:
  void read_sheet() {
    if (options_.sheet.empty()) return;
    const std::size_t by = options_.sheet.find('x');
    if (by == std::string::npos) {
      throw UsageError(fmt::format("--grid: expected COLUMNSxROWS, got \"{}\"", options_.sheet));
    }
    columns_ = static_cast<int>(parse_int("--grid: columns", options_.sheet.substr(0, by), 1, 64));
    const auto rows =
        static_cast<int>(parse_int("--grid: rows", options_.sheet.substr(by + 1), 1, 64));
    if (app_->get_option("--images")->count() > 0 && options_.images != columns_ * rows) {
      throw UsageError(
          fmt::format("--grid: expected as many places as -n has pictures, {}, found {}",
                      options_.images, columns_ * rows));
    }
    options_.images = columns_ * rows;
  }

  /// Options of one kind of drawing that a batch has none of.
  void check_batch() const {
    for (const char* option : {"--prompt", "--class", "--caption-features", "--images", "--grid",
                               "--watch", "--compare", "--show"}) {
      if (app_->get_option(option)->count() > 0)
        throw UsageError(fmt::format("--batch: expected no {} beside it", option));
    }
    if (app_->get_option("--out")->count() == 0)
      throw UsageError("--batch: expected -o with the folder of the pictures, found none");
  }

  /// Before anything is drawn, that what is drawn can be written.
  void check_files() const {
    if (!options_.batch.empty()) {
      std::error_code ignored;
      const std::filesystem::path folder = options_.out;
      if (std::filesystem::exists(folder, ignored) &&
          !std::filesystem::is_directory(folder, ignored))
        fail("write to {}: expected a folder, found a file", folder.string());
      return;
    }
    const std::filesystem::path out = options_.out, film = options_.watch;
    std::error_code ignored;  // the first file tells what is wrong
    if (!out.empty() && !out.has_filename()) std::filesystem::create_directories(out, ignored);
    if (!film.empty()) {
      const AtomicFile probe(film);
    }
    for (const std::filesystem::path& file : files_) {
      const AtomicFile probe(file);
      if (!film.empty() &&
          std::filesystem::weakly_canonical(file) == std::filesystem::weakly_canonical(film)) {
        throw UsageError(
            fmt::format("--watch: expected another file than that of -o, found {}", film.string()));
      }
    }
  }

  int draw_batch(const LoadedModel& loaded) {
    const VqDecoder decoder = open_picture_decoder(loaded.model, options_.vq);
    prepare(loaded, decoder);
    return run_batch(loaded, decoder,
                     {.file = options_.batch,
                      .folder = options_.out,
                      .usual = facts_of(0),
                      .decode = options_.decode,
                      .kv = options_.model.kv,
                      .json = options_.json});
  }

  void prepare(const LoadedModel& loaded, const VqDecoder& decoder) {
    model_name_ = std::filesystem::canonical(loaded.path).filename().string();
    computed_by_ = computed_by(loaded, decoder, options_.model);
    use_places(options_.decode, loaded, cache_type(loaded.model, options_.model.kv));
    choose_drafter(options_.decode, OutputKind::picture);
    options_.decode.codebook = codebook_of(loaded.model, options_.vq);
    lossless_ = make_verifier(options_.decode.verify)->lossless();
  }

  /// That there is one and only one.
  void check_prompt() const {
    for (const auto& [option, text] : {std::pair("--prompt", &options_.prompt),
                                       {"--class", &options_.class_name},
                                       {"--caption-features", &options_.caption_features}}) {
      if (app_->get_option(option)->count() > 0 && text->empty())
        throw UsageError(fmt::format("{}: expected a text that is not empty", option));
    }
    const int given = (options_.prompt.empty() ? 0 : 1) + (options_.class_name.empty() ? 0 : 1) +
                      (options_.caption_features.empty() ? 0 : 1);
    if (given != 1) throw UsageError("expected one of -p, --class, --caption-features and --batch");
  }

  PicturePrompt make_prompt(const LoadedModel& loaded) {
    if (!options_.class_name.empty()) {
      class_prompt(loaded.model, 0);  // a model that is asked by classes
      return text_prompt(loaded.model, nullptr, options_.class_name);
    }
    if (options_.prompt.empty()) {
      const CaptionFeatures features = read_caption(loaded.model, options_.caption_features);
      caption_hash_ = hash_of(features);
      return caption_prompt(loaded.model, features);
    }
    return text_prompt(loaded.model, loaded.tokenizer_or_null(), options_.prompt);
  }

  std::vector<Request> make_requests(const LoadedModel& loaded) {
    const PicturePrompt prompt = make_prompt(loaded);
    std::vector<Request> requests(static_cast<std::size_t>(options_.images));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ask_for(loaded.model, prompt, static_cast<float>(options_.sampling.guidance), requests[i]);
      requests[i].guidance_tokens = options_.sampling.guidance_tokens;
      requests[i].sampler = options_.sampling.sampler;
      requests[i].seed = options_.sampling.seed + i;
    }
    return requests;
  }

  /// Pictures that were stopped are left out.
  Drawn draw_all(const LoadedModel& loaded, const DecodeSettings& settings,
                 const std::vector<Request>& requests, const Audience& audience,
                 const StopFlag& stop) const {
    PictureView* const view = audience.view;
    std::optional<ProgressMeter> meter;
    if (!view || !view->is_live()) meter.emplace("draw");
    const auto all = requests.size() * static_cast<std::size_t>(requests[0].max_new);
    std::size_t done = 0, next = 0;
    Drawn drawn;
    drawn.first.emplace(*loaded.model.config.image);
    Drawing drawing;
    drawing.room = picture_room(loaded.model, {.pictures = requests.size(),
                                               .prompt_tokens = requests[0].prompt.size(),
                                               .streams = requests[0].streams(),
                                               .type = options_.model.kv});
    drawing.next = [&]() -> std::optional<Request> {
      if (next == requests.size()) return std::nullopt;
      return requests[next++];
    };
    drawing.grew = [&](std::size_t picture, std::span<const TokenId> tokens, double relaxed) {
      done += tokens.size();
      if (picture == 0) drawn.first->add(tokens, relaxed);
      if (meter) meter->update(done, all);
      if (view) view->grew(picture, tokens, relaxed);
    };
    drawing.drawn = [&](std::size_t picture, Answer answer) {
      if (answer.finish == FinishReason::cancelled) return;
      drawn.pictures.push_back({picture, std::move(answer)});
      if (audience.finished) audience.finished(drawn.pictures.back());
    };
    drawn.ms = draw(loaded, settings, drawing, &stop);
    std::ranges::sort(drawn.pictures, {}, &FinishedPicture::index);
    return drawn;
  }

  std::string shown_prompt() const {
    if (!options_.prompt.empty()) return options_.prompt;
    if (!options_.class_name.empty()) return shown_class();
    return std::filesystem::path(options_.caption_features).filename().string();
  }

  std::string shown_class() const {
    const bool is_number = options_.class_name.find_first_not_of("0123456789") == std::string::npos;
    return is_number ? "class " + options_.class_name : options_.class_name;
  }

  PictureFacts facts_of(std::size_t index) const {
    return {.prompt = shown_prompt(),
            .seed = options_.sampling.seed + index,
            .guidance = static_cast<float>(options_.sampling.guidance),
            .sampler = options_.sampling.sampler,
            .model = model_name_,
            .drafter = options_.decode.drafter,
            .verify = options_.decode.verify,
            .computed_by = computed_by_,
            .caption = caption_hash_,
            .policy = options_.decode.policy,
            .keeps_codes = keeps_tokens(options_.decode),
            .guidance_tokens = options_.sampling.guidance_tokens};
  }
  PngTexts file_texts(const ImagePlan& plan, const FinishedPicture& one) const {
    const PictureSums sums = sums_of(plan, one.answer.tokens, one.answer.statistics);
    PngTexts texts = texts_of(facts_of(one.index));
    texts.emplace_back("tau", fmt::format("{:.3f}", sums.tau()));
    if (columns_ > 0) texts.emplace_back("sheet", options_.sheet);
    return texts;
  }

  void write_film(const ImagePlan& plan, const Picture& picture, const Drawn& drawn) const {
    const auto frames = film_of(plan, picture, drawn.first->accepted(), drawn.first->relaxed());
    const PngTexts texts = file_texts(plan, drawn.pictures[0]);
    write_file(options_.watch, encode_animation(frames.back().picture, frames, texts));
  }

  /// Notes how surprising the codes are, for --json: nothing in expectation where drafts change no
  /// law. Takes a forward for each picture.
  void judge(const Model& model, const std::vector<Request>& requests, const Drawn& drawn) {
    if (lossless_ || drawn.pictures.size() < requests.size()) return;
    for (const auto& [index, answer] : drawn.pictures) {
      surprises_.push_back(surprise_of(model, requests[index], answer.tokens));
      surprise_.add(requests[index].seed, surprises_.back());
    }
  }

  std::string sameness(bool equal) const {
    if (equal) return "the same pictures";
    if (keeps_tokens(options_.decode)) return "DIFFERENT pictures";
    return fmt::format("other pictures, as the rule {} may give", options_.decode.verify);
  }

  /// Of a sheet nothing is written before all its pictures are drawn.
  int report_stopped(const ImagePlan& plan, const Drawn& drawn, const VqDecoder& decoder) const {
    if (columns_ == 0 && !drawn.pictures.empty()) report(plan, drawn, {}, decoder, true);
    note("stopped; {} of {} pictures were drawn{}", drawn.pictures.size(), options_.images,
         columns_ > 0 ? ", no sheet was written" : "");
    return kExitInterrupted;
  }

  void report(const ImagePlan& plan, const Drawn& drawn, const std::optional<Drawn>& plain,
              const VqDecoder& decoder, bool equal) const {
    if (options_.json) return write_json(report_json(plan, drawn, plain, decoder, equal));
    const PictureSums sums = drawn.sums(plan);
    const auto count = static_cast<double>(drawn.pictures.size());
    const double images_s = count / drawn.ms * 1000;
    for (std::size_t i = 0; i < drawn.pictures.size() && i < files_.size(); ++i)
      write_output(files_[drawn.pictures[i].index].string() + "\n");
    note(
        "{}: {} codes in {} checks, {:.2f} codes a forward, {:.2f} pictures/s, decoding {:.1f} "
        "ms each",
        options_.decode.drafter, sums.codes, sums.rounds, sums.steps_compression(), images_s,
        decode_ms_ / count);
    if (!plain) return;
    note("plain: {:.2f} pictures/s; {:.2f}x plain, {}", images_s / speed_up(drawn, *plain),
         speed_up(drawn, *plain), sameness(equal));
  }

  Json picture_json(const ImagePlan& plan, const FinishedPicture& one,
                    const VqDecoder& decoder) const {
    const auto& [index, answer] = one;
    Json json = {{"file", files_[std::min(index, files_.size() - 1)].string()},
                 {"prompt", shown_prompt()},
                 {"seed", options_.sampling.seed + index},
                 {"tokens", answer.tokens},
                 {"surprise", nullptr},
                 {"width", decoder.width()},
                 {"height", decoder.height()}};
    json.update(numbers_of(sums_of(plan, answer.tokens, answer.statistics)));
    if (!surprises_.empty()) json["surprise"] = surprises_[index].mean();
    return json;
  }

  Json report_json(const ImagePlan& plan, const Drawn& drawn, const std::optional<Drawn>& plain,
                   const VqDecoder& decoder, bool equal) const {
    Json images = Json::array();
    for (const FinishedPicture& one : drawn.pictures)
      images.push_back(picture_json(plan, one, decoder));
    Json json = {{"images", images},
                 {"partial", std::ssize(drawn.pictures) < options_.images},
                 {"surprise", nullptr},
                 {"decode_ms", decode_ms_},
                 {"guidance", options_.sampling.guidance},
                 {"guidance_tokens", options_.sampling.guidance_tokens},
                 {"top_k", options_.sampling.sampler.top_k},
                 {"drafter", options_.decode.drafter},
                 {"policy", options_.decode.policy},
                 {"verify", options_.decode.verify},
                 {"equal", nullptr}};
    json.update(drawn.numbers(plan));
    if (!surprises_.empty()) json["surprise"] = surprise_.mean();
    if (plain) {
      json["equal"] = equal;
      if (!keeps_tokens(options_.decode)) json["claims_equal"] = false;
      json["speedup"] = speed_up(drawn, *plain);
      json["plain"] = {{"rounds", plain->sums(plan).rounds}, {"draw_ms", plain->ms}};
    }
    return json;
  }

  static double speed_up(const Drawn& drawn, const Drawn& plain) { return plain.ms / drawn.ms; }

  ImageOptions options_;
  int columns_ = 0;
  std::vector<std::filesystem::path> files_;  // one for each picture, or that of the sheet
  double decode_ms_ = 0;                      // of all pictures
  std::string model_name_;                    // once it is loaded
  PngTexts computed_by_;                      // once the model is loaded
  std::string caption_hash_;
  bool lossless_ = true;             // the rule
  std::vector<Surprise> surprises_;  // of all pictures, or of none: judge()
  SurpriseOfPictures surprise_;
};

}  // namespace

std::unique_ptr<Command> make_image(CLI::App& parent) { return std::make_unique<Image>(parent); }

}  // namespace talon
