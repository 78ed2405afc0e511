#include <algorithm>
#include <numeric>
#include <optional>

#include "cli/command.h"
#include "cli/image/batch.h"
#include "cli/image/drawing.h"
#include "cli/image/picture_view.h"
#include "cli/options/draft_options.h"
#include "cli/options/flags.h"
#include "cli/options/sampler_options.h"
#include "cli/options/session.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "draw/film.h"
#include "draw/picture_prompt.h"
#include "engine/stopwatch.h"
#include "image/png.h"
#include "io/atomic_file.h"

namespace talon {
namespace {

constexpr int kSheetGap = 4;  // pixels

struct ImageOptions {
  ModelOptions model;
  std::string prompt, class_name, caption_features, batch, vq, out = "picture.png", sheet, watch;
  int images = 1;
  double guidance = 2;
  SamplerOptions sampler;
  std::uint64_t seed = 1;
  DecodeSettings decode;
  ShowPictures show = ShowPictures::automatic;
  bool compare = false, json = false;
};

/// What one method made of all requests.
struct Drawn {
  std::vector<Answer> pictures;
  double ms = 0;

  int rounds() const {
    return std::accumulate(pictures.begin(), pictures.end(), 0,
                           [](int sum, const Answer& one) { return sum + one.statistics.rounds; });
  }
  /// Codes, and what stands between them.
  int codes() const {
    return std::accumulate(pictures.begin(), pictures.end(), 0, [](int sum, const Answer& one) {
      return sum + static_cast<int>(one.tokens.size());
    });
  }
  /// Codes of a check; the prompt's forward draws the first.
  double tau() const {
    const auto images = static_cast<double>(pictures.size());
    return rounds() > 0 ? (codes() - images) / rounds() : 1;
  }
  /// Codes of a forward of the model, the prompt's included.
  double steps_compression() const {
    return static_cast<double>(codes()) /
           static_cast<double>(
               std::max<std::size_t>(1, static_cast<std::size_t>(rounds()) + pictures.size()));
  }
};

class Image : public Command {
 public:
  explicit Image(CLI::App& parent) : Command(parent.add_subcommand("image", "draw pictures")) {
    options_.sampler.temperature = 1;
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
            "or {\"caption_features\": FILE}, with \"seed\", \"guidance\" and \"out\" (a "
            "name in the folder -o); those that are there are left out")
        ->type_name("FILE");
    add_int(*app_, "-n,--images", options_.images, 1, 4096,
            "pictures, each with a seed of its own: --seed, the next one, ...");
    app_->add_option("-o,--out", options_.out,
                     "PNG file; of several, NAME-1.png, NAME-2.png, ...; of a batch, a folder")
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
    add_real(*app_, "--guidance", options_.guidance, 0, 1e6,
             "how far from what the model draws without a prompt; at most 1: no guide");
    add_sampler_flags(*app_, options_.sampler, options_.seed);
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
    check_files();
    const LoadedModel loaded = load_with_meter(options_.model);
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
      plain = draw_all(loaded, settings, requests, nullptr, interrupt.stop());
    }
    const ImagePlan& plan = *loaded.model.config.image;
    PictureView view(options_.show, plan, decoder, requests.size(), columns_);
    const Drawn drawn = draw_all(loaded, options_.decode, requests, &view, interrupt.stop());
    if (interrupt.stop().requested()) return kExitInterrupted;
    const Stopwatch watch;
    std::vector<Picture> pictures;
    for (const Answer& answer : drawn.pictures)
      pictures.push_back(decoder.decode(codes_of(plan, answer.tokens)));
    const double decode_ms = watch.ms();
    view.finish(pictures);
    const std::vector<std::string> files = write(pictures, drawn);
    if (!options_.watch.empty()) write_film(plan, pictures[0], drawn);
    const bool equal = !plain || is_equal(*plain, drawn);
    report(drawn, plain, files, pictures, decode_ms, equal);
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
    const std::filesystem::path film = options_.watch;
    if (!film.empty()) {
      const AtomicFile probe(film);
    }
    for (const std::filesystem::path& file : files()) {
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
    choose_drafter(options_.decode, Answers::pictures);
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
      ask_for(loaded.model, prompt, static_cast<float>(options_.guidance), requests[i]);
      requests[i].sampler = options_.sampler;
      requests[i].seed = options_.seed + i;
    }
    return requests;
  }

  /// view: null: only how far it is.
  Drawn draw_all(const LoadedModel& loaded, const DecodeSettings& settings,
                 const std::vector<Request>& requests, PictureView* view,
                 const StopFlag& stop) const {
    std::optional<ProgressMeter> meter;
    if (!view || !view->is_live()) meter.emplace("draw");
    const auto all = requests.size() * static_cast<std::size_t>(requests[0].max_new);
    std::size_t done = 0, next = 0;
    Drawn drawn;
    drawn.pictures.resize(requests.size());
    Drawing drawing;
    drawing.room = picture_room(loaded.model, {.pictures = requests.size(),
                                               .prompt_tokens = requests[0].prompt.size(),
                                               .streams = requests[0].streams(),
                                               .type = options_.model.kv});
    drawing.next = [&]() -> std::optional<Request> {
      if (next == requests.size()) return std::nullopt;
      return requests[next++];
    };
    drawing.grew = [&](std::size_t picture, std::span<const TokenId> tokens) {
      done += tokens.size();
      if (meter) meter->update(done, all);
      if (view) view->grew(picture, tokens);
    };
    drawing.drawn = [&](std::size_t picture, Answer answer) {
      drawn.pictures[picture] = std::move(answer);
    };
    drawn.ms = draw(loaded, settings, drawing, &stop);
    return drawn;
  }

  static bool is_equal(const Drawn& a, const Drawn& b) {
    return std::ranges::equal(a.pictures, b.pictures, {}, &Answer::tokens, &Answer::tokens);
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
            .seed = options_.seed + index,
            .guidance = static_cast<float>(options_.guidance),
            .sampler = options_.sampler,
            .model = model_name_,
            .drafter = options_.decode.drafter,
            .verify = options_.decode.verify,
            .computed_by = computed_by_,
            .caption = caption_hash_,
            .policy = options_.decode.policy,
            .lossless = lossless_};
  }
  PngTexts file_texts(std::size_t index, const Answer& answer) const {
    PngTexts texts = texts_of(facts_of(index));
    texts.emplace_back("tau", fmt::format("{:.3f}", answer.tau()));
    return texts;
  }

  /// One for each picture, or that of the sheet.
  std::vector<std::filesystem::path> files() const {
    const std::filesystem::path out = options_.out;
    if (columns_ > 0 || options_.images == 1) return {out};
    std::vector<std::filesystem::path> files;
    for (int i = 1; i <= options_.images; ++i) {
      files.push_back(out);
      files.back().replace_filename(
          fmt::format("{}-{}{}", out.stem().string(), i, out.extension().string()));
    }
    return files;
  }

  /// The names of the files.
  std::vector<std::string> write(const std::vector<Picture>& pictures, const Drawn& drawn) const {
    std::vector<std::string> names;
    for (const std::filesystem::path& file : files()) {
      const std::size_t i = names.size();
      const Picture& picture = pictures[i];
      write_png(file, columns_ > 0 ? sheet_of(pictures, columns_, kSheetGap) : picture,
                file_texts(i, drawn.pictures[i]));
      names.push_back(file.string());
    }
    return names;
  }

  void write_film(const ImagePlan& plan, const Picture& picture, const Drawn& drawn) const {
    const Answer& answer = drawn.pictures[0];
    const auto frames = film_of(plan, picture, answer.statistics.accepted);
    write_file(options_.watch,
               encode_animation(frames.back().picture, frames, file_texts(0, answer)));
  }

  std::string sameness(bool equal) const {
    if (equal) return "the same pictures";
    if (keeps_tokens(options_.decode)) return "DIFFERENT pictures";
    return fmt::format("other pictures, as the rule {} may give", options_.decode.verify);
  }

  void report(const Drawn& drawn, const std::optional<Drawn>& plain,
              const std::vector<std::string>& files, const std::vector<Picture>& pictures,
              double decode_ms, bool equal) const {
    const double images_s = static_cast<double>(pictures.size()) / drawn.ms * 1000;
    if (!options_.json) {
      for (const std::string& file : files) write_output(file + "\n");
      note(
          "{}: {} codes in {} checks, {:.2f} codes a forward, {:.2f} pictures/s, decoding {:.1f} "
          "ms each",
          options_.decode.drafter, drawn.codes(), drawn.rounds(), drawn.steps_compression(),
          images_s, decode_ms / static_cast<double>(pictures.size()));
      if (plain) {
        note("plain: {:.2f} pictures/s; {:.2f}x plain, {}", images_s / speed_up(drawn, *plain),
             speed_up(drawn, *plain), sameness(equal));
      }
      return;
    }
    Json images = Json::array(), accepted = Json::array();
    double draft_ms = 0, check_ms = 0, distortion = 0;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      const Answer& answer = drawn.pictures[i];
      images.push_back({{"file", files[std::min(i, files.size() - 1)]},
                        {"prompt", shown_prompt()},
                        {"seed", options_.seed + i},
                        {"tokens", answer.tokens},
                        {"width", pictures[i].width},
                        {"height", pictures[i].height}});
      accepted.push_back(answer.statistics.accepted);
      draft_ms += answer.statistics.draft_ms;
      check_ms += answer.statistics.check_ms;
      distortion += answer.statistics.distortion;
    }
    Json json = {{"images", images},
                 {"tokens", drawn.codes()},
                 {"rounds", drawn.rounds()},
                 {"accepted", accepted},
                 {"tau", drawn.tau()},
                 {"steps_compression", drawn.steps_compression()},
                 {"draft_ms", draft_ms},
                 {"check_ms", check_ms},
                 {"draw_ms", drawn.ms},
                 {"decode_ms", decode_ms},
                 {"images_s", images_s},
                 {"guidance", options_.guidance},
                 {"drafter", options_.decode.drafter},
                 {"policy", options_.decode.policy},
                 {"verify", options_.decode.verify},
                 {"distortion", distortion},
                 {"equal", nullptr}};
    if (plain) {
      json["equal"] = equal;
      if (!keeps_tokens(options_.decode)) json["claims_equal"] = false;
      json["speedup"] = speed_up(drawn, *plain);
      json["plain"] = {{"rounds", plain->rounds()}, {"draw_ms", plain->ms}};
    }
    write_json(json);
  }

  static double speed_up(const Drawn& drawn, const Drawn& plain) { return plain.ms / drawn.ms; }

  ImageOptions options_;
  int columns_ = 0;
  std::string model_name_;  // once it is loaded
  PngTexts computed_by_;    // likewise
  std::string caption_hash_;
  bool lossless_ = true;  // the rule
};

}  // namespace

std::unique_ptr<Command> make_image(CLI::App& parent) { return std::make_unique<Image>(parent); }

}  // namespace talon
