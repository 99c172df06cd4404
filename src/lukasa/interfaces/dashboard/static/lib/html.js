// The one place that names the libraries: preact, its hooks, and htm bound to preact.
import { h, render, Fragment, createContext } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { h, render, Fragment, createContext };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useContext, useId } from "../vendor/hooks.js";
export const html = htm.bind(h);
