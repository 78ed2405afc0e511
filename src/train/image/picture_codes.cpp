#include "train/image/picture_codes.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json_text.h"
#include "train/image/code_maker.h"
#include "train/image/stored_tokenizer.h"
#include "train/image/views.h"

namespace talon {
namespace {

using torch::Tensor;

// Facts that files of before do not have.
constexpr std::string_view kAddedFacts[] = {"contents_sha256", "precision"};

std::filesystem::path view_file(const std::filesystem::path& folder, int view) {
  return folder / fmt::format("codes-{}.safetensors", view);
}

PictureView view_of(const PictureSet& pictures, std::size_t picture, int view,
                    const CodesOptions& options) {
  if (view == 0) return {.picture = picture};
  const auto place = static_cast<std::uint64_t>(view) * pictures.size() + picture;
  return draw_view(pictures, picture, options.shift, random_at(options.seed, place));
}

/// Of all pictures, one view: int32 [pictures, cells]. Undefined if it was stopped.
Tensor encode_view(const PictureSet& pictures, const CodeMaker& tokenizer, int view,
                   const CodesOptions& options, const StopFlag* stop) {
  std::vector<Tensor> parts;
  const auto batch = static_cast<std::size_t>(options.batch);
  for (std::size_t begin = 0; begin < pictures.size(); begin += batch) {
    if (stop && stop->requested()) return {};
    std::vector<PictureView> views;
    for (std::size_t i = begin; i < std::min(pictures.size(), begin + batch); ++i)
      views.push_back(view_of(pictures, i, view, options));
    parts.push_back(tokenizer.codes_of(render(pictures, views)));
  }
  return at::cat(parts);
}

Json facts_of(const PictureSet& pictures, const CodeMaker& tokenizer, const CodesOptions& options) {
  return {{"data_sha256", pictures.sha256()},
          {"contents_sha256", pictures.contents_sha256()},
          {"tokenizer_sha256", tokenizer.sha256()},
          {"precision", options.precision},
          {"codes", tokenizer.codes()},
          {"grid", tokenizer.grid()},
          {"views", options.views},
          {"shift", options.shift},
          {"seed", options.seed}};
}

std::string text_of(const std::filesystem::path& file, const std::string& doing) {
  std::ifstream input(file);
  std::ostringstream text;
  text << input.rdbuf();
  if (!input) fail("{}: cannot be read; talon train image codes writes it", doing);
  return text.str();
}

/// Throws Error naming the setting that a file of codes was made with another value of.
void require_facts(const Json& found, const Json& expected, const std::string& doing,
                   std::string_view remedy) {
  if (!found.is_object()) fail("{}: expected an object of facts, found {}", doing, found.dump());
  for (const auto& [name, value] : expected.items()) {
    const Json one = found.value(name, Json());
    if (one == value) continue;
    if (one.is_null() && std::ranges::find(kAddedFacts, name) != std::end(kAddedFacts)) continue;
    fail("{}: setting \"{}\": expected {}, found {}: {}", doing, name, value.dump(), one.dump(),
         remedy);
  }
}

void require_facts_of_view(const Checkpoint& view, const Json& expected,
                           const std::filesystem::path& file, std::string_view remedy) {
  const std::string doing = "read " + file.string() + ": facts";
  const auto facts = view.metadata.find("facts");
  if (facts == view.metadata.end() || !facts->is_string())
    fail("{}: expected those that talon train image codes writes, found none", doing);
  require_facts(parse_json(facts->get<std::string>(), doing), expected, doing, remedy);
}

/// Before anything is written: whether what the folder holds is of the same facts.
void require_same_run(const std::filesystem::path& out, const Json& facts) {
  constexpr std::string_view kRemedy = "use another --out";
  const auto index = out / "codes.json";
  if (std::filesystem::exists(index)) {
    const std::string doing = "read " + index.string();
    require_facts(parse_json(text_of(index, doing), doing), facts, doing, kRemedy);
  }
  for (int view = 0; view < facts.at("views").get<int>(); ++view) {
    const auto file = view_file(out, view);
    if (std::filesystem::exists(file))
      require_facts_of_view(read_safetensors(file), facts, file, kRemedy);
  }
}

}  // namespace

bool make_codes(const CodesOptions& options, const TrainingHooks& hooks) {
  at::set_num_threads(options.threads);
  const PictureSet pictures(options.data);
  const auto tokenizer = open_code_maker(options, pictures.side());
  const std::filesystem::path out = options.out;
  std::error_code problem;
  std::filesystem::create_directories(out, problem);
  if (problem) fail("train image codes: cannot make {}: {}", options.out, problem.message());
  const Json facts = facts_of(pictures, *tokenizer, options);
  require_same_run(out, facts);
  if (!std::filesystem::exists(out / "codes.json")) {
    const std::string text = facts.dump(1) + "\n";
    write_file(out / "codes.json", std::as_bytes(std::span(text)));
  }
  for (int view = 0; view < options.views; ++view) {
    const auto file = view_file(out, view);
    if (std::filesystem::exists(file)) continue;
    const Tensor codes = encode_view(pictures, *tokenizer, view, options, hooks.stop);
    if (!codes.defined()) return false;
    write_tensors(file, {{"codes", codes}}, {{"facts", facts.dump()}});
    hooks.log(fmt::format("view {} of {}: {} pictures", view + 1, options.views, pictures.size()));
  }
  tokenizer->write(out / kTokenizerFile);
  return true;
}

PictureCodes read_codes(const std::filesystem::path& folder, const PictureSet& pictures) {
  const auto index = folder / "codes.json";
  const std::string doing = "read " + index.string();
  PictureCodes codes;
  codes.facts = parse_json(text_of(index, doing), doing);
  int views = 0;
  try {
    codes.facts.at("codes").get_to(codes.code_count);
    codes.facts.at("grid").get_to(codes.grid);
    codes.facts.at("views").get_to(views);
  } catch (const Json::exception& problem) {
    fail("{}: {}", doing, problem.what());
  }
  const bool is_of_these = codes.facts.value("data_sha256", "") == pictures.sha256() &&
                           (!codes.facts.contains("contents_sha256") ||
                            codes.facts["contents_sha256"] == pictures.contents_sha256());
  if (!is_of_these)
    fail("{}: expected codes of the pictures of --data, found those of others", doing);
  const auto count = static_cast<std::int64_t>(pictures.size());
  std::vector<Tensor> all;
  for (int view = 0; view < views; ++view) {
    all.push_back(torch::empty({count, codes.grid * codes.grid}, torch::kInt));
    const auto file = view_file(folder, view);
    if (!std::filesystem::exists(file)) {
      fail("{}: expected {} views, found no {}: the same talon train image codes goes on", doing,
           views, file.filename().string());
    }
    const Checkpoint stored = read_safetensors(file);
    require_facts_of_view(stored, codes.facts, file, "talon train image codes makes it again");
    read_tensor(stored, "codes", all.back());
  }
  codes.codes = at::stack(all);
  return codes;
}

}  // namespace talon
