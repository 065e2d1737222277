// An OpenID provider on loopback: npm's oidc-provider, with the users of ACCOUNTS and a form to log in.
//
// Environment: MODULE (the file of oidc-provider), CLIENTS and ACCOUNTS (JSON), and, for https, CERT and
// KEY (files). Prints its issuer, then answers each line of standard input: "rotate" changes all keys,
// "count PATH" says how often a path was asked for, "mute" and "speak" have it answer nothing or again,
// "lie" has the tokens be of another sign-in: with another nonce.
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import readline from 'node:readline';

const {default: Provider} = await import(process.env.MODULE);
const accounts = JSON.parse(process.env.ACCOUNTS);
const clients = JSON.parse(process.env.CLIENTS);
const secure = process.env.CERT ? {cert: fs.readFileSync(process.env.CERT), key: fs.readFileSync(process.env.KEY)} : null;
const API = 'https://opensandbox.example/api';
const seen = new Map();
let provider, issuer, mute = false, lies = false, round = 0;

function keys() {
  round += 1;
  const made = [['rsa', {modulusLength: 2048}, 'RS256'], ['ec', {namedCurve: 'P-256'}, 'ES256'], ['ed25519', {}, 'EdDSA']];
  return made.map(([type, options, alg]) => ({...crypto.generateKeyPairSync(type, options).privateKey.export({format: 'jwk'}), alg, use: 'sig', kid: `${alg}-${round}`}));
}

function make() {
  provider = new Provider(issuer, {
    clients,
    jwks: {keys: keys()},
    claims: {openid: ['sub'], profile: ['preferred_username', 'groups', 'org']},
    conformIdTokenClaims: false,
    findAccount: (_, id) => ({accountId: id, claims: () => ({sub: id, ...accounts[id]})}),
    enabledJWA: {idTokenSigningAlgValues: ['RS256', 'ES256', 'EdDSA', 'HS256']},
    features: {
      devInteractions: {enabled: false},
      resourceIndicators: {
        enabled: true,
        defaultResource: (ctx, client) => (client.clientId === 'cli' ? API : undefined),
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({scope: 'openid', audience: API, accessTokenFormat: 'jwt', accessTokenTTL: 600}),
      },
    },
    extraTokenClaims: (_, token) => accounts[token.accountId],
    interactions: {url: (_, interaction) => `/interaction/${interaction.uid}`},
    cookies: {keys: ['test']},
    pkce: {required: () => true, methods: ['S256']},
    ttl: {AccessToken: 600, AuthorizationCode: 60, IdToken: 600, Interaction: 600, Session: 600, Grant: 600},
  });
}

async function body(request) {
  let text = '';
  for await (const piece of request) text += piece;
  return new URLSearchParams(text);
}

const FORM = '<!doctype html><html lang="en"><title>Provider</title><form method="post"><label>User <input name="user"></label><button name="do" value="enter">Enter</button><button name="do" value="cancel">Cancel</button></form>';

async function interact(request, response) {
  const {prompt, params, session} = await provider.interactionDetails(request, response);
  const finish = (result) => provider.interactionFinished(request, response, result, {mergeWithLastSubmission: true});
  if (prompt.name === 'consent') {
    const grant = new provider.Grant({accountId: session.accountId, clientId: params.client_id});
    grant.addOIDCScope('openid profile email');
    grant.addResourceScope(API, 'openid');
    return finish({consent: {grantId: await grant.save()}});
  }
  if (request.method !== 'POST') return response.setHeader('Content-Type', 'text/html').end(FORM);
  const said = await body(request);
  if (said.get('do') === 'cancel' || !accounts[said.get('user')])
    return finish({error: 'access_denied', error_description: 'no such user'});
  return finish({login: {accountId: said.get('user'), remember: false}});
}

async function answer(request, response) {
  const {pathname} = new URL(request.url, issuer);
  seen.set(pathname, (seen.get(pathname) ?? 0) + 1);
  if (mute) return undefined;
  if (lies) request.url = request.url.replace(/nonce=[^&]*/, 'nonce=another');
  if (pathname.startsWith('/interaction/')) return interact(request, response).catch((e) => response.writeHead(400).end(String(e)));
  return provider.callback()(request, response);
}

const server = secure ? https.createServer(secure, answer) : http.createServer(answer);
server.listen(0, '127.0.0.1', () => {
  issuer = `${secure ? 'https' : 'http'}://127.0.0.1:${server.address().port}`;
  make();
  console.log(issuer);
});
for await (const line of readline.createInterface({input: process.stdin})) {
  const [what, path] = line.split(' ');
  if (what === 'rotate') make();
  if (what === 'mute' || what === 'speak') mute = what === 'mute';
  if (what === 'lie' || what === 'speak') lies = what === 'lie';
  console.log(what === 'count' ? (seen.get(path) ?? 0) : 'done');
}
process.exit(0);
